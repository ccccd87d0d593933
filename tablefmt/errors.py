"""The error tree, grouped by what the caller does next.

TablefmtError
├── TableNotFoundError  TableExistsError  VersionNotFoundError  ChangesExpiredError
│   ForeignTableError                 the request does not fit this table
├── ExportBlockedError                another program writes where the copy of the table is
├── InvalidRangeError (a ValueError)  an invalid version, time or range
│   └── InvalidArgumentError          another invalid argument or option
│       └── UnknownArgumentError (a TypeError)  an argument that the function does not take
├── ConcurrentModificationException   nothing was committed: read again, run again
│   ├── ConcurrentAppendException  ConcurrentDeleteReadException
│   │   ConcurrentDeleteDeleteException  ConcurrentWriteException
│   └── MetadataChangedException  ProtocolChangedException  ConcurrentTransactionException
├── CommitUnknownError                it may be in the table: resolve(); files are kept
├── CommitRejectedError               it is not and will not be in the table
├── CorruptTableError                 stop: an administrator must decide
│   └── CorruptEntryError  LogGapError  CorruptDataError  TableReplacedError
│       LostCheckpointError
├── UnsupportedFeatureError  UnsafeStoreError
├── StoreError                        the store cannot answer: credentials, bucket, network, disk
│   └── InvalidKeyError               `store.object_store`: a key that no object can have
├── KeyNotFoundError                  `store.object_store`: an object that should exist does not
└── SchemaMismatchError  ConstraintViolationError  MergeCardinalityError
    InvalidPredicateError  IdempotenceError  TransactionStateError

Every class has a stable `kind`, its name in words without Error or Exception: `table_not_found`.
The facts of an error are attributes, so a program need not parse its message. Messages end with
advice. The module that raises an error says what is wrong, and the class here adds the advice.
Errors never contain secrets. They pickle and copy with their text, attributes and notes,
but without `__cause__` and traceback, as usual in Python.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tablefmt.printable import printable, printable_lines


class TablefmtError(Exception):
    """Base class of all errors that this package raises on purpose."""

    kind: ClassVar[str] = "tablefmt"

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the finished text and the attributes, because a constructor would change the
        text."""
        made = (type(self), *self.args)
        return copyreg.__newobj__, made, self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        """Return the message in one line, with escapes for control characters (SEC-1)."""
        return printable(super().__str__())


_TAKE_OVER = (
    "To use files of a Delta table, an Iceberg table or a Parquet folder where they are, call "
    "tablefmt.import_table(). To copy the rows, read them with a reader of that format and pass "
    "them to tablefmt.write(), with a folder of its own for the new table."
)


class TableNotFoundError(TablefmtError):
    """There is no table at this place, or it was dropped. `found` describes what is there
    instead."""

    kind = "table_not_found"

    def __init__(self, uri: str, detail: str = "", found: str = "") -> None:
        extra = f" ({detail})" if detail else ""
        advice = "Check the path, or create a table with tablefmt.create()."
        if found:
            extra = f": {found}" + extra
            advice = _TAKE_OVER
        super().__init__(f"no table at {uri}{extra}. {advice}")
        self.uri = uri
        self.found = found


class TableExistsError(TablefmtError):
    """There is a table at this place already."""

    kind = "table_exists"

    def __init__(
        self,
        uri: str,
        detail: str = "",
        *,
        advice: str = (
            "Open it with tablefmt.open(), add to it with tablefmt.write(), or pass exist_ok=True "
            "to create() if its definition is the same."
        ),
    ) -> None:
        extra = f" ({detail})" if detail else ""
        super().__init__(f"a table exists at {uri}{extra}. {advice}")
        self.uri = uri


class ForeignTableError(TableExistsError):
    """Files of another table format, or data files of another program, are at this place.

    Attributes:
        found: description of the files, such as "a Delta table".
        where: the file that shows it.
    """

    kind = "foreign_table"

    def __init__(self, uri: str, found: str, where: str, *, is_copy: bool = False) -> None:
        advice = (
            "If the table was dropped and no program reads the copy any more, remove it and its "
            "files with tablefmt.drop(uri, delete_data=True). Otherwise choose another folder."
            if is_copy
            else "The program that owns these files may delete those of a table beside them. "
            + _TAKE_OVER
        )
        TablefmtError.__init__(self, f"cannot create a table at {uri}: {found} ({where}). {advice}")
        self.uri = uri
        self.found = found
        self.where = where


class ExportBlockedError(TablefmtError):
    """The copy of the table in another format has a commit that was not made from its log.

    Attributes:
        target: name of the format: "delta" or "iceberg".
        path: key of the object that is in the way.
    """

    kind = "export_blocked"

    def __init__(self, uri: str, target: str, path: str, why: str) -> None:
        super().__init__(
            f"the export of {uri} to {target} is blocked by {path}: {why}. Nothing was changed. "
            "Find the program that writes there and stop it. To make a new copy, remove the old "
            "one's metadata (spec/exports.md), and export again."
        )
        self.target = target
        self.path = path


class VersionNotFoundError(TablefmtError):
    """A version or a time outside the table's history (TIM-4).

    Attributes:
        requested: the requested version or time, in words.
        oldest, latest: the bounds of the history, both inclusive: versions, or times as text.
    """

    kind = "version_not_found"

    def __init__(self, requested: object, oldest: object, latest: object) -> None:
        super().__init__(
            f"{requested} is outside the table's history: it goes from {oldest} to {latest}, "
            "both included. Choose a value in between."
        )
        self.requested = requested
        self.oldest = oldest
        self.latest = latest


class ChangesExpiredError(TablefmtError):
    """The requested changes are no longer kept. `earliest_version` is the first that can be
    read."""

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
    """An invalid range or point: begin after end, two starts, an unreadable time."""

    kind = "invalid_range"


class InvalidArgumentError(InvalidRangeError):
    """An invalid argument or option other than a range. Also a ValueError.

    It derives from `InvalidRangeError`, which was raised for these cases in the past. So existing
    handlers still catch it.
    """

    kind = "invalid_argument"


class UnknownArgumentError(InvalidArgumentError, TypeError):
    """An argument that the function does not take. Also a TypeError, as Python raises it."""

    kind = "unknown_argument"


class ConcurrentModificationException(TablefmtError):
    """A concurrent commit conflicts with this one. Nothing of this one is in the table.

    Attributes:
        winner_version: version of the winning commit.
        winner_operation: name of its operation.
        rule: id of the rule in spec/conflicts.md that decided.
        cell: the matrix rule that applied, in words; None if no matrix was used. `cell` is the
            public name of "matrix rule".
        evidence: what both commits touched, with counts; at most 10 items of each kind.
        advice: one sentence about what to do next.
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
            f"{reason} (winning commit: version {winner_version}, {winner_operation}; rule "
            f"{rule}). Nothing was committed. {self.advice}"
        )
        self.reason = reason
        self.winner_version = winner_version
        self.winner_operation = winner_operation
        self.rule = rule
        self.cell = cell
        self.evidence = dict(evidence or {})

    def explain(self) -> str:
        """Return a full explanation in several lines."""
        lines = [
            f"{type(self).__name__}: {self.reason}.",
            _fact("winning commit", f"version {self.winner_version}, {self.winner_operation}"),
            _fact("rule", f"{self.rule} (spec/conflicts.md)"),
        ]
        if self.cell is not None:
            lines.append(_fact("matrix rule", self.cell))
        for name, items in self.evidence.items():
            if not name.endswith("_count"):
                lines.append(_fact(name, _listed(items, self.evidence.get(name + "_count"))))
        lines.append(_fact("advice", f"Nothing was committed. {self.advice}"))
        return printable_lines(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts for programs."""
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


def _fact(name: str, text: str) -> str:
    """Return a line of an explanation."""
    return f"  {name:<14}  {text}"


def _listed(items: Any, count: int | None) -> str:
    """Return items as text, with the number of further ones."""
    if not isinstance(items, list):
        return str(items)
    more = f" and {count - len(items)} more" if count is not None and count > len(items) else ""
    return ", ".join(map(str, items)) + more


class ConcurrentAppendException(ConcurrentModificationException):
    """The winning commit added rows that this operation would have read."""

    kind = "concurrent_append"


class ConcurrentDeleteReadException(ConcurrentModificationException):
    """The winning commit deleted rows or files that this operation read."""

    kind = "concurrent_delete_read"


class ConcurrentDeleteDeleteException(ConcurrentModificationException):
    """Both commits delete the same row or file."""

    kind = "concurrent_delete_delete"


class ConcurrentWriteException(ConcurrentModificationException):
    """The `transaction` matrix does not allow both commits."""

    kind = "concurrent_write"


class MetadataChangedException(ConcurrentModificationException):
    """The winning commit changed schema, properties or partitioning."""

    kind = "metadata_changed"
    default_advice = "Open the table again, adapt the data to its new schema, and write again."


class ProtocolChangedException(ConcurrentModificationException):
    """The winning commit created, replaced or upgraded the table."""

    kind = "protocol_changed"
    default_advice = "Open the new table and start again."


class ConcurrentTransactionException(ConcurrentModificationException):
    """The winning commit has the same application id."""

    kind = "concurrent_transaction"
    default_advice = "Make sure that only one writer runs under this application id."


class CommitUnknownError(TablefmtError):
    """The store did not say if the entry was written. The commit may be in the table.

    No file is deleted. Call `table.resolve(transaction, version)` later (CMT-9).

    Attributes:
        transaction: the nonce, 32 hex digits.
        version: the last version that it contested.
        detail: the store's failure, in words.
    """

    kind = "commit_unknown"

    def __init__(
        self, transaction: str, version: int, detail: str = "", *, kept_from: int | None = None
    ) -> None:
        """Build the error.

        Args:
            transaction, version, detail: the attributes.
            kept_from: given if the entries that would tell were removed: the first version that the
                log still has.
        """
        extra = f" ({detail})" if detail else ""
        super().__init__(
            f"the outcome of the commit at version {version} is unknown{extra}: the commit may be "
            "in the table, or may still arrive. Its files are kept. "
            f'Call resolve("{transaction}", {version}) before writing the same data again.'
            if kept_from is None
            else f"the outcome of transaction {transaction} can no longer be found: the log now "
            f"begins at version {kept_from}, and has no entry of this transaction. Check if its "
            "rows are in the table before writing the same data again."
        )
        self.transaction = transaction
        self.version = version
        self.detail = detail


class CommitRejectedError(TablefmtError):
    """The commit is not and will not be in the table: permission, disk, deadline."""

    kind = "commit_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the commit was rejected: {reason}. Nothing of it is in the table; fix the cause "
            "and run the operation again."
        )
        self.reason = reason


class CorruptTableError(TablefmtError):
    """Stored bytes are not what was written. Nothing is read past the damage.

    Attributes:
        key: of the object, relative to the table; "" if it is not a single object.
        rule: id of the broken rule in spec/; "" if there is none.
        detail: the damage, without the rest of the message.
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
    """A part of a checkpoint is missing or damaged, and nothing else has its contents."""

    kind = "lost_checkpoint"


class CorruptEntryError(CorruptTableError):
    """A log entry that is torn, altered, foreign, or breaks a rule of the format."""

    kind = "corrupt_entry"


class LogGapError(CorruptTableError):
    """An entry is missing below another one: version `missing`, while `found` exists."""

    kind = "log_gap"

    def __init__(self, missing: int, found: int) -> None:
        super().__init__(f"the log has version {found} but not version {missing}", rule="LOG-2")
        self.missing = missing
        self.found = found


class CorruptDataError(CorruptTableError):
    """A data file is missing, of the wrong length, or fails its checksums."""

    kind = "corrupt_data"


class TableReplacedError(CorruptTableError):
    """The table at this place is not the one that was opened."""

    kind = "table_replaced"
    default_advice = "Open the table again."


class UnsupportedFeatureError(TablefmtError):
    """The table or the call needs something that this version does not support. `features` names
    it."""

    kind = "unsupported_feature"

    def __init__(self, message: str, features: Sequence[str]) -> None:
        super().__init__(message)
        self.features = list(features)


class UnsafeStoreError(TablefmtError):
    """The store does not honour put-if-absent, so two writers could destroy each other's
    commits."""

    kind = "unsafe_store"


class StoreError(TablefmtError):
    """The store cannot do the request. The message says what failed and what to do.

    Attributes:
        retryable: True if the same request may succeed later without any change.
    """

    kind = "store"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class SchemaMismatchError(TablefmtError):
    """Data or a schema that does not fit. `columns` names the columns at fault."""

    kind = "schema_mismatch"

    def __init__(self, message: str, columns: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.columns = list(columns)


class ConstraintViolationError(TablefmtError):
    """Rows that break NOT NULL, a CHECK (`constraint` is its name), or `appendOnly`.

    `row` is an example of such a row, with its informative columns; None if unknown.
    """

    kind = "constraint_violation"

    def __init__(
        self, message: str, *, constraint: str | None = None, row: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.row = None if row is None else dict(row)


class MergeCardinalityError(TablefmtError):
    """Several source rows would change one target row. `keys` has up to ten such target rows."""

    kind = "merge_cardinality"

    def __init__(self, message: str, keys: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.keys = [dict(key) for key in keys]


class TransactionStateError(TablefmtError):
    """The transaction has ended, or holds another operation already."""

    kind = "transaction_state"


class InvalidPredicateError(TablefmtError, ValueError):
    """A condition that cannot be parsed, or names a column that does not exist."""

    kind = "invalid_predicate"


class IdempotenceError(TablefmtError):
    """An application version that was used before for other content."""

    kind = "idempotence"
