"""The error tree, grouped by what the caller does next.

TablefmtError
├── TableNotFoundError  TableExistsError  VersionNotFoundError  ChangesExpiredError
│   ForeignTableError                 the question does not fit this table
├── InvalidRangeError (a ValueError)  a version, a time or a range that makes no sense
│   └── InvalidArgumentError          another argument or option that makes no sense
├── ConcurrentModificationException   nothing was committed: read again, do it again
│   ├── ConcurrentAppendException  ConcurrentDeleteReadException
│   │   ConcurrentDeleteDeleteException  ConcurrentWriteException
│   └── MetadataChangedException  ProtocolChangedException  ConcurrentTransactionException
├── CommitUnknownError                it may be in the table: resolve(); files are kept
├── CommitRejectedError               it is not and will not be in the table
├── CorruptTableError                 stop: a person has to look
│   └── CorruptEntryError  LogGapError  CorruptDataError  TableReplacedError
│       LostCheckpointError
├── UnsupportedFeatureError  UnsafeStoreError
├── StoreError                        the store cannot answer: credentials, bucket, network, disk
└── SchemaMismatchError  ConstraintViolationError  MergeCardinalityError
    InvalidPredicateError  IdempotenceError  TransactionStateError

Every class has a stable `kind`, its name in words without Error or Exception: `table_not_found`.
It keeps what it was built with as attributes; nobody has to read a message to decide. Messages end
with what to do next. No secret ever enters an error. Errors pickle and copy with their text, all
attributes and their notes; `__cause__` and the traceback stay behind, as Python has it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tablefmt.printable import printable, printable_lines


class TablefmtError(Exception):
    """The base of every error this package raises on purpose."""

    kind: ClassVar[str] = "tablefmt"

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the finished text and the attributes; a constructor would word it again."""
        made = (type(self), *self.args)
        return copyreg.__newobj__, made, self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        """Return the message in one line; what it quotes drives no terminal (SEC-1)."""
        return printable(super().__str__())


class TableNotFoundError(TablefmtError):
    """There is no table at this place, or it was dropped; `found` says what is there instead."""

    kind = "table_not_found"

    def __init__(self, uri: str, detail: str = "", found: str = "") -> None:
        extra = f" ({detail})" if detail else ""
        advice = "Check the path, or make one with tablefmt.create()."
        if found:
            extra = f": {found}" + extra
            advice = (
                "To import it, read it with a reader of that format and pass the rows to "
                "tablefmt.write(), with a folder of its own for the new table."
            )
        super().__init__(f"no table at {uri}{extra}. {advice}")
        self.uri = uri
        self.found = found


class TableExistsError(TablefmtError):
    """A table is at this place already."""

    kind = "table_exists"

    def __init__(self, uri: str, detail: str = "") -> None:
        extra = f" ({detail})" if detail else ""
        super().__init__(
            f"a table exists at {uri}{extra}. Open it with tablefmt.open(), add to it with "
            "tablefmt.write(), or pass exist_ok=True to create() if its definition is the same."
        )
        self.uri = uri


class ForeignTableError(TableExistsError):
    """Files of another table format, or data files of another program, are at this place.

    Attributes:
        found: What is there, such as "a Delta table".
        where: The file that shows it.
    """

    kind = "foreign_table"

    def __init__(self, uri: str, found: str, where: str) -> None:
        TablefmtError.__init__(
            self,
            f"cannot create a table at {uri}: {found} ({where}). The program that owns these files "
            "may delete those of a table beside them. Create the table in a folder of its own. To "
            "copy the rows, read them with a reader of that format and pass them to "
            "tablefmt.write().",
        )
        self.uri = uri
        self.found = found
        self.where = where


class VersionNotFoundError(TablefmtError):
    """A version or a time outside the table's history (TIM-4).

    Attributes:
        requested: what was asked for, in words.
        oldest, latest: what there is, both inclusive: versions, or times as text.
    """

    kind = "version_not_found"

    def __init__(self, requested: object, oldest: object, latest: object) -> None:
        super().__init__(
            f"{requested} is outside the table's history: it goes from {oldest} to {latest}, "
            "both included. Ask for something in between."
        )
        self.requested = requested
        self.oldest = oldest
        self.latest = latest


class ChangesExpiredError(TablefmtError):
    """The changes asked for are past retention; `earliest_version` can still be read."""

    kind = "changes_expired"

    def __init__(
        self,
        requested: int,
        earliest_version: int,
        advice: str = "Start there, or read a full snapshot first.",
    ) -> None:
        super().__init__(
            f"changes from version {requested} are past retention; the earliest that can still be "
            f"read is {earliest_version}. {advice}"
        )
        self.requested = requested
        self.earliest_version = earliest_version


class InvalidRangeError(TablefmtError, ValueError):
    """A range or a point that makes no sense: begin after end, two starts, an unreadable time."""

    kind = "invalid_range"


class InvalidArgumentError(InvalidRangeError):
    """An argument or an option that makes no sense, where no range is meant.

    It is below `InvalidRangeError` because that class stood for these cases before: whoever
    catches it still does. A ValueError too.
    """

    kind = "invalid_argument"


class ConcurrentModificationException(TablefmtError):
    """Another commit made this one impossible. Nothing of it is in the table.

    Attributes:
        winner_version: ID version of the commit that stands in the way.
        winner_operation: Its operation's name.
        rule: Id of the rule in spec/conflicts.md that decided.
        cell: The cell of the matrices that applied, in words; None where none was asked.
        evidence: What both touched, with counts; at most 10 items a kind.
        advice: What to do next, one sentence.
    """

    kind = "concurrent_modification"
    default_advice: ClassVar[str] = "Read the table again and run the operation again."

    def __init__(
        self,
        reason: str,
        *,
        winner_version: int,
        winner_operation: str,
        rule: str,
        cell: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        advice: str | None = None,
    ) -> None:
        self.advice = advice or self.default_advice
        super().__init__(
            f"{reason} (winner: version {winner_version}, {winner_operation}; rule {rule}). "
            f"Nothing was committed. {self.advice}"
        )
        self.reason = reason
        self.winner_version = winner_version
        self.winner_operation = winner_operation
        self.rule = rule
        self.cell = cell
        self.evidence = dict(evidence or {})

    def explain(self) -> str:
        """The whole story for a person, several lines."""
        lines = [
            f"{type(self).__name__}: {self.reason}.",
            f"  winner    version {self.winner_version}, {self.winner_operation}",
            f"  rule      {self.rule} (spec/conflicts.md)",
        ]
        if self.cell is not None:
            lines.append(f"  cell      {self.cell}")
        for name, items in self.evidence.items():
            if not name.endswith("_count"):
                lines.append(f"  {name:<9} {_listed(items, self.evidence.get(name + '_count'))}")
        return printable_lines([*lines, f"  advice    Nothing was committed. {self.advice}"])

    def as_dict(self) -> dict[str, Any]:
        """The same for a machine."""
        return {
            "kind": self.kind,
            "reason": self.reason,
            "winner_version": self.winner_version,
            "winner_operation": self.winner_operation,
            "rule": self.rule,
            "cell": self.cell,
            "evidence": self.evidence,
            "advice": self.advice,
        }


def _listed(items: Any, count: int | None) -> str:
    """Items with how many more there are."""
    if not isinstance(items, list):
        return str(items)
    more = f" and {count - len(items)} more" if count is not None and count > len(items) else ""
    return ", ".join(map(str, items)) + more


class ConcurrentAppendException(ConcurrentModificationException):
    """The winner added rows where this operation read."""

    kind = "concurrent_append"


class ConcurrentDeleteReadException(ConcurrentModificationException):
    """The winner deleted something this operation read."""

    kind = "concurrent_delete_read"


class ConcurrentDeleteDeleteException(ConcurrentModificationException):
    """Both delete the same thing."""

    kind = "concurrent_delete_delete"


class ConcurrentWriteException(ConcurrentModificationException):
    """A failing cell of the `transaction` matrix."""

    kind = "concurrent_write"


class MetadataChangedException(ConcurrentModificationException):
    """The winner changed schema, properties or partitioning."""

    kind = "metadata_changed"
    default_advice = "Open the table again, fit the data to its new schema, and write again."


class ProtocolChangedException(ConcurrentModificationException):
    """The winner created, replaced or upgraded the table."""

    kind = "protocol_changed"
    default_advice = "Open the table that is there now and start over from it."


class ConcurrentTransactionException(ConcurrentModificationException):
    """The winner carries the same application id."""

    kind = "concurrent_transaction"
    default_advice = "Make sure that only one writer runs under this application id."


class CommitUnknownError(TablefmtError):
    """The store did not say whether the entry was written. It may be in the table.

    No file is deleted. `table.resolve(transaction, version)` decides later (CMT-9).

    Attributes:
        transaction: the nonce, 32 hex digits.
        version: the ID version that it tried for last.
        detail: what the store did, in words.
    """

    kind = "commit_unknown"

    def __init__(
        self, transaction: str, version: int, detail: str = "", *, kept_from: int | None = None
    ) -> None:
        """`kept_from`: the entries that would tell are gone, and the log begins there."""
        extra = f" ({detail})" if detail else ""
        super().__init__(
            f"it is not known what became of the commit at version {version}{extra}: it may be in "
            f"the table, or may still arrive. Its files are kept. "
            f'Call resolve("{transaction}", {version}) before writing the same data again.'
            if kept_from is None
            else f"what became of transaction {transaction} cannot be told any more: entries of "
            f"the log are kept from version {kept_from} on, and none of them is its own. Look "
            "whether its rows are in the table before writing the same data again."
        )
        self.transaction = transaction
        self.version = version
        self.detail = detail


class CommitRejectedError(TablefmtError):
    """The commit is not and will not be in the table: permission, disk, deadline."""

    kind = "commit_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the commit was rejected: {reason}. Nothing of it is in the table; mend the cause "
            "and run the operation again."
        )
        self.reason = reason


class CorruptTableError(TablefmtError):
    """What is stored is not what was written. Nothing is read past the damage.

    Attributes:
        key: the object's, relative to the table; "" where it is not one object.
        rule: id of the rule in spec/ that is broken; "" where none is named.
        detail: what is wrong, without the rest of the message.
    """

    kind = "corrupt_table"
    default_advice: ClassVar[str] = (
        "Do not write to the table; run `tablefmt verify`, and restore the object from a copy."
    )

    def __init__(
        self, message: str, *, key: str = "", rule: str = "", advice: str | None = None
    ) -> None:
        where = f"{key}: " if key else ""
        why = f" (rule {rule})" if rule else ""
        super().__init__(f"{where}{message}{why}. {advice or self.default_advice}")
        self.key = key
        self.rule = rule
        self.detail = message


class LostCheckpointError(CorruptTableError):
    """A part of a checkpoint is missing or damaged, and nothing else says what it said."""

    kind = "lost_checkpoint"


class CorruptEntryError(CorruptTableError):
    """A log entry that is torn, flipped, foreign, or breaks a rule of the format."""

    kind = "corrupt_entry"


class LogGapError(CorruptTableError):
    """An entry is missing between two that exist: version `missing`, while `found` is there."""

    kind = "log_gap"

    def __init__(self, missing: int, found: int) -> None:
        super().__init__(f"the log has version {found} but not version {missing}", rule="LOG-2")
        self.missing = missing
        self.found = found


class CorruptDataError(CorruptTableError):
    """A data file is missing, of the wrong length, or fails its checksums."""

    kind = "corrupt_data"


class TableReplacedError(CorruptTableError):
    """Another table is at this place than the one that was opened."""

    kind = "table_replaced"
    default_advice = "Open the table again."


class UnsupportedFeatureError(TablefmtError):
    """The table, or the call, needs something this version does not do. `features` names it."""

    kind = "unsupported_feature"

    def __init__(self, message: str, features: Sequence[str]) -> None:
        super().__init__(message)
        self.features = list(features)


class UnsafeStoreError(TablefmtError):
    """The store does not honour put-if-absent: two writers could destroy each other's commits."""

    kind = "unsafe_store"


class StoreError(TablefmtError):
    """The store cannot do what was asked; the message says what and what to do.

    Attributes:
        retryable: True if the same request may succeed later without anybody mending anything.
    """

    kind = "store"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class SchemaMismatchError(TablefmtError):
    """Data or a schema that does not fit. `columns` names the offenders."""

    kind = "schema_mismatch"

    def __init__(self, message: str, columns: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.columns = list(columns)


class ConstraintViolationError(TablefmtError):
    """Rows that break NOT NULL, a CHECK (`constraint` is its name), or `appendOnly`.

    `row` is one that breaks it, the columns that tell something; None where it is not known.
    """

    kind = "constraint_violation"

    def __init__(
        self, message: str, *, constraint: str | None = None, row: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.row = None if row is None else dict(row)


class MergeCardinalityError(TablefmtError):
    """Several source rows would change one target row. `keys` shows up to ten such rows."""

    kind = "merge_cardinality"

    def __init__(self, message: str, keys: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.keys = [dict(key) for key in keys]


class TransactionStateError(TablefmtError):
    """A transaction that was committed or aborted, or that holds another operation already."""

    kind = "transaction_state"


class InvalidPredicateError(TablefmtError, ValueError):
    """A condition that cannot be parsed, or names what is not there."""

    kind = "invalid_predicate"


class IdempotenceError(TablefmtError):
    """An application version was used before, for other content."""

    kind = "idempotence"
