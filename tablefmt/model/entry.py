"""What one commit says: the values of a log entry. Pure.

Names equal the JSON names in the log where both exist. Spec: ENT-3 .. ENT-8, ENT-15,
ENT-16, ADD-1 .. ADD-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union

from tablefmt.model.schema import Schema

FORMAT = 1
"""The version of the format that this package writes, and the highest it reads."""

ISOLATIONS = frozenset({"WriteSerializable", "Serializable"})
"""Of `Basis.isolation`."""

GRANULARITIES = frozenset({"row", "file", "transaction"})
"""Of `Basis.granularity`."""


class OperationClass(str, Enum):
    """What the conflict rules go by (semantics: operation classes)."""

    INSERT = "INSERT"
    OVERWRITE = "OVERWRITE"
    UPDATE = "UPDATE"
    MINOR_COMPACT = "MINOR_COMPACT"
    MAJOR_COMPACT = "MAJOR_COMPACT"
    CLUSTER = "CLUSTER"
    METADATA = "METADATA"
    PROTOCOL = "PROTOCOL"


NOT_LOGICAL = frozenset(
    {OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT, OperationClass.CLUSTER}
)
"""Classes whose commits create no time version (TIM-2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What was done, for people and for the conflict rules."""

    name: str
    cls: OperationClass
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """The partitions touched: tuples of encoded values in the order of `partition_by`."""

    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class PredicateScope:
    """The partitions for which the condition, Spark SQL over partition columns, holds."""

    predicate: str


Scope = Union[PartitionScope, PredicateScope, None]  # noqa: UP007 - run time
"""None is the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a commit relied on (ENT-5)."""

    read_version: int | None
    isolation: str
    granularity: str
    blind: bool
    scope: Scope = None
    predicate: str | None = None
    """The condition of a DELETE, UPDATE or MERGE as text, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Running sums after an entry (ENT-6)."""

    files: int
    rows: int
    """As written, before deletes."""
    bytes: int
    next_id: int
    metadata_version: int
    deleted: int = 0
    """Rows of live files that deletion vectors take out."""
    oldest: int = 0
    """The earliest version that is kept: what is of those before may be gone (ENT-13)."""


@dataclass(frozen=True, slots=True)
class ProtocolFeatures:
    """Features that readers, and writers, have to know (ENT-7)."""

    reader: tuple[str, ...] = ()
    writer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A CHECK: no row of the table makes the condition FALSE (ENT-10, DAT-13)."""

    condition: str
    """Spark SQL over the columns."""
    columns: tuple[int, ...]
    """Ids of the top-level columns that it looks at, ascending."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema, partitioning, properties, constraints, comment; replaced as a whole (ENT-8)."""

    schema: Schema
    partition_by: tuple[int, ...] = ()
    """Field ids, in order."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """As given; defaults are not stored."""
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    """By name."""
    comment: str | None = None
    """What people say of the table; None for nothing. ENT-11."""

    @property
    def partition_names(self) -> list[str]:
        """Logical names of the partition columns, in order."""
        return [self.schema.by_id(i).name for i in self.partition_by]


@dataclass(frozen=True, slots=True)
class Application:
    """The caller's own id and version of this write (CFL-6)."""

    id: str
    version: int
    digest: str | None = None
    """SHA-256 of the content where it is known."""


@dataclass(frozen=True, slots=True)
class DerivedFrom:
    """What an entry took of another table: the changes of versions after `start` up to `to`
    (ENT-15)."""

    source: str
    """The id of that table."""
    name: str
    """Tells several pipes between the same tables apart."""
    start: int | None
    """`from` in the log: the last version that was taken before; None: nothing was."""
    to: int
    digest: str
    """SHA-256 of the bytes of the source's entry `to`."""
    location: str | None = None
    """Where the source was."""

    @property
    def key(self) -> tuple[str, str]:
        """Under which the state of a table has the cursor."""
        return self.source, self.name


@dataclass(frozen=True, slots=True)
class CursorBack:
    """A cursor that is what it was at an older version (ENT-16)."""

    source: str
    name: str
    to: int | None
    """None: nothing was taken then."""
    digest: str | None
    """Of the source's entry `to`."""

    @property
    def key(self) -> tuple[str, str]:
        """As `DerivedFrom.key`."""
        return self.source, self.name


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """The files one entry adds, as columns of equal length >= 1. No object per file.

    Keys: `path`, `size`, `rows`, `footer`, and by field id `partition.<id>`, `lower.<id>`,
    `upper.<id>`, `nulls.<id>`, `nans.<id>`; values encoded by VAL-1, None = unknown (VAL-4).
    Optional: `updated` (true: the rows are new versions of rows that the same entry takes out),
    `keys` (hashes of the keys in the file, ADD-8), `written` (the version of the metadata that the
    file was written under; None: the newest up to this entry, ADD-9).
    """

    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.columns["path"])

    @property
    def rows(self) -> int:
        """Rows of all files together."""
        return sum(self.columns["rows"])

    @property
    def bytes(self) -> int:
        """Sizes of all files together."""
        return sum(self.columns["size"])


@dataclass(frozen=True, slots=True)
class SideFile:
    """Where the `add` or `delete` columns of a very large entry are (ADD-6, DEL-3)."""

    path: str
    files: int
    size: int
    sha256: str

    def __len__(self) -> int:
        return self.files


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """Rows that one entry takes out of files, as columns of equal length >= 1 (DEL-1).

    Bitmaps are text, base64 of the portable form of a 64-bit roaring bitmap of positions, 0 the
    first row of the file; None for an empty one. The two of a file are disjoint.
    """

    file: Sequence[int]
    """Ids, ascending, each once."""
    rows: Sequence[int]
    """Positions in both bitmaps together, >= 1."""
    deleted: Sequence[str | None]
    """Rows that are gone."""
    updated: Sequence[str | None]
    """Rows whose new version is in a file that the same entry adds."""

    def __len__(self) -> int:
        return len(self.file)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the rows of order-keeping rewrites came from, as columns of equal length >= 1 (LIN-1).

    Each line is a run of rows of one input; an output's rows are those of its lines, in order.
    """

    output: Sequence[int]
    """Index of the output among the files the entry adds; equal ones are together, rising."""
    input: Sequence[int]
    """File id."""
    start: Sequence[int]
    """Position in the input of the first row of the run."""
    rows: Sequence[int]
    """Length of the run in the input, dropped rows included."""
    dropped: Sequence[str | None]
    """Positions in the input, within the run, that were left out: bitmap text, None for none."""

    def __len__(self) -> int:
        return len(self.output)


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """What the rows an entry adds have to do with older ones (ENT-9)."""

    set: tuple[int, ...] | None
    """Ids of the columns that an UPDATE or MERGE set, ascending; None: any may differ."""
    keys: tuple[int, ...] = ()
    """Ids of the columns that `keys` of the added files hash, in their order."""


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint that a horizon names, since entries that it was made of may be gone (ENT-13)."""

    path: str
    """Of its root."""
    sha256: str
    size: int
    """Bytes of the root."""
    version: int


@dataclass(frozen=True, slots=True)
class LogHorizon:
    """That entries may be removed from the log (ENT-13, feature logExpiry)."""

    version: int
    """The first entry that stays; version 0 stays too."""
    previous: str
    """SHA-256 of the last entry that goes."""
    checkpoints: tuple[KeptCheckpoint, ...]
    """At least two."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """That older versions are given up from this entry on (ENT-13)."""

    version: int
    """The earliest version that is kept, >= 1."""
    log: LogHorizon | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit as it stands in the log."""

    table: str
    version: int
    timestamp: int
    time_version: int
    transaction: str
    previous: str | None
    operation: Operation
    basis: Basis
    totals: Totals
    protocol: ProtocolFeatures | None = None
    metadata: Metadata | None = None
    add: AddedFiles | SideFile | None = None
    remove: Sequence[int] = ()
    delete: RowDeletes | SideFile | None = None
    lineage: Lineage | None = None
    update: RowUpdate | None = None
    application: Application | None = None
    derived_from: DerivedFrom | None = None
    cursors: tuple[CursorBack, ...] = ()
    """Those that a RESTORE takes back."""
    horizon: Horizon | None = None
    ends: bool = False
    """The table ends with this entry: it was dropped (ENT-14)."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a later writer that readers may ignore (VER-2), kept as they are."""

    @property
    def moves_cursors(self) -> bool:
        """Whether a cursor is elsewhere after it (RPL-7)."""
        return self.derived_from is not None or bool(self.cursors)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry with the digest of its bytes, which the next entry has to name (LOG-1)."""

    entry: Entry
    digest: str
    """SHA-256 of the whole bytes, 64 hex digits."""

    @property
    def version(self) -> int:
        """The entry's ID version."""
        return self.entry.version
