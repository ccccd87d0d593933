"""Values of a log entry: the content of one commit. Pure.

Names equal the JSON names in the log where both exist. Spec: ENT-3 .. ENT-8, ENT-15, ENT-16, ADD-1
.. ADD-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Union

from tablefmt.model.frozen_dict import freeze_mappings
from tablefmt.model.partition_transforms import declared
from tablefmt.model.schema import Field, Schema

FORMAT = 1
"""Version of the format that this package writes, and the highest that it reads."""

ISOLATIONS = frozenset({"WriteSerializable", "Serializable"})
"""Allowed values of `Basis.isolation`."""

GRANULARITIES = frozenset({"row", "file", "transaction"})
"""Allowed values of `Basis.granularity`."""


PARTITIONING = "partitioning"
"""Column with the number of each file's partitioning (EVO-2)."""

OWN = "own."
"""Prefix of columns with partition values of fields that partition only some of the files."""


class OperationClass(str, Enum):
    """Operation class, the key of the conflict rules (semantics: operation classes)."""

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
    """Operation of a commit, for people and for the conflict rules."""

    name: str
    cls: OperationClass
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """Partitions that a commit touched: tuples of encoded values in the order of `partition_by`."""

    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class PredicateScope:
    """Partitions for which the condition holds; Spark SQL over partition columns."""

    predicate: str


Scope = Union[PartitionScope, PredicateScope, None]  # noqa: UP007 - run time
"""Scope of a commit. None is the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Read version and isolation of a commit: the state it relied on (ENT-5)."""

    read_version: int | None
    isolation: str
    granularity: str
    blind: bool
    scope: Scope = None
    predicate: str | None = None
    """Condition of a DELETE, UPDATE or MERGE as text, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Table statistics: running sums after an entry (ENT-6)."""

    files: int
    rows: int
    """Rows as written, before deletes."""
    bytes: int
    next_id: int
    metadata_version: int
    deleted: int = 0
    """Rows of live files that deletion vectors delete."""
    oldest: int = 0
    """Earliest version that is kept. Files and entries of earlier versions may be removed
    (ENT-13).
    """


@dataclass(frozen=True, slots=True)
class ProtocolFeatures:
    """Features that readers and writers must know (ENT-7)."""

    reader: tuple[str, ...] = ()
    writer: tuple[str, ...] = ()

    def plus(self, reader: Iterable[str] = (), writer: Iterable[str] = ()) -> ProtocolFeatures:
        """Return these features and more, each list without repeats and in order."""
        return ProtocolFeatures(
            tuple(sorted({*self.reader, *reader})), tuple(sorted({*self.writer, *writer}))
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """CHECK constraint: no row of the table makes the condition FALSE (ENT-10, DAT-13)."""

    condition: str
    """Spark SQL over the columns."""
    columns: tuple[int, ...]
    """Ids of the top-level columns that the condition uses, ascending."""


@dataclass(frozen=True, slots=True)
class Import:
    """Source of imported files, and their column names (IMP-2, feature importedFiles)."""

    root: str
    """Address of the folder that paths are relative to; "" for the table's own."""
    names: Mapping[int, str | None]
    """Names in these files by field id, where they differ from the physical names. None: the files
    lack the column.
    """
    format: str
    """Format of the source: parquet, delta or iceberg."""
    uri: str
    """Address of the source when it was imported."""
    version: int | None = None
    """Version of the source; None if it has no versions."""
    adopt: bool = False
    """Vacuum and drop may remove these files."""
    lookup: str | None = None
    """Way in which Iceberg's readers find the columns: "ids", "names", or None. IMP-8."""

    def __post_init__(self) -> None:
        freeze_mappings(self)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema, partitioning, properties, constraints and comment, replaced as a whole (ENT-8)."""

    schema: Schema
    partition_by: tuple[int, ...] = ()
    """Field ids of the partition columns, in order."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties as given; defaults are not stored."""
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    """Constraints by name."""
    comment: str | None = None
    """Description of the table for people; None for no description. ENT-11."""
    imports: Mapping[int, Import] = field(default_factory=dict)
    """Sources of imported files by number. IMP-2."""
    partitionings: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Partitionings of live files by number, with the current one. Empty if it never changed
    without a rewrite. EVO-1.
    """

    def __post_init__(self) -> None:
        freeze_mappings(self)

    @property
    def numbered(self) -> Mapping[int, tuple[int, ...]]:
        """Return the partitionings of live files by number. One that never changed has number
        0.
        """
        return self.partitionings or {0: self.partition_by}

    @property
    def partitioning(self) -> int:
        """Return the number of the current partitioning, which new files have."""
        known = self.numbered.items()
        return next(number for number, ids in known if ids == self.partition_by)

    def partitioned_as(self, number: int) -> Metadata:
        """Return the metadata with an older partitioning as the current one, to write files by."""
        return replace(self, partition_by=self.numbered[number])

    @property
    def is_evolved(self) -> bool:
        """Return whether live files may have different partitionings."""
        return len(self.partitionings) > 1

    @property
    def partition_ids(self) -> frozenset[int]:
        """Return the ids of the fields that partition every live file, whatever its
        partitioning.
        """
        return frozenset.intersection(*map(frozenset, self.numbered.values()))

    @property
    def all_partition_ids(self) -> frozenset[int]:
        """Return the ids of the fields that partition any live file."""
        return frozenset().union(*self.numbered.values())

    @property
    def partition_fields(self) -> list[Field]:
        """Return the partition columns and hidden partition fields, in order."""
        return [self.schema.by_id(i) for i in self.partition_by]

    @property
    def all_partition_fields(self) -> list[Field]:
        """Return the fields of all partitionings, the current one first."""
        older = sorted(self.all_partition_ids - {*self.partition_by})
        return [self.schema.by_id(i) for i in (*self.partition_by, *older)]

    @property
    def partition_names(self) -> list[str]:
        """Return the partitioning as it is declared, in order: columns, or calls as `days(ts)`."""
        return [declared(field, self.schema) for field in self.partition_fields]


@dataclass(frozen=True, slots=True)
class ApplicationTransaction:
    """Application transaction: the caller's own id and version of this write (CFL-6)."""

    id: str
    version: int
    digest: str | None = None
    """SHA-256 of the content, if known."""


@dataclass(frozen=True, slots=True)
class DerivedFrom:
    """Batch range that an entry took from a source table: the changes of versions after `start` up
    to `to` (ENT-15).
    """

    source: str
    """Id of the source table."""
    name: str
    """Name that distinguishes several pipes between the same tables."""
    start: int | None
    """`from` in the log: the last version taken before; None if this is the first batch."""
    to: int
    digest: str
    """SHA-256 of the bytes of the source's entry `to`."""
    location: str | None = None
    """Location of the source when it was read."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the key of the cursor in a table's state."""
        return self.source, self.name


@dataclass(frozen=True, slots=True)
class CursorBack:
    """Cursor that a RESTORE moves back to its value at an older version (ENT-16)."""

    source: str
    name: str
    to: int | None
    """Last version taken of the source; None: no version had been taken."""
    digest: str | None
    """SHA-256 of the source's entry `to`."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the key of the cursor, as `DerivedFrom.key` does."""
        return self.source, self.name


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """Files that one entry adds, as columns of equal length >= 1. There is no object per file.

    Keys: `path`, `size`, `rows`, `footer`, and by field id `partition.<id>`, `lower.<id>`,
    `upper.<id>`, `nulls.<id>`, `nans.<id>`. Values are encoded by VAL-1; None = unknown (VAL-4).

    Optional keys:

    - `updated`: true if the rows are new versions of rows that the same entry deletes.
    - `keys`: hashes of the keys in the file, ADD-8.
    - `written`: the metadata version that the file was written under. None means the newest version
      up to this entry, ADD-9.
    - `import`: the number of the import that the file belongs to. None for files of this table's
      writers, IMP-1.
    - `digest`: SHA-256 of the whole imported file, or None, IMP-6.
    - `partitioning`: the number of the partitioning of the file. None means the current one, EVO-2.
    """

    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.columns["path"])

    def numbered(self, partitioning: int) -> AddedFiles:
        """Return the files with the number of their partitioning (EVO-2)."""
        return AddedFiles({**self.columns, PARTITIONING: [partitioning] * len(self)})

    @property
    def rows(self) -> int:
        """Return the number of rows of all files together."""
        return sum(self.columns["rows"])

    @property
    def bytes(self) -> int:
        """Return the size of all files together."""
        return sum(self.columns["size"])


@dataclass(frozen=True, slots=True)
class OverflowFile:
    """Overflow metadata file with the `add` or `delete` columns of a very large entry (ADD-6,
    DEL-3).
    """

    path: str
    files: int
    size: int
    sha256: str

    def __len__(self) -> int:
        return self.files


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """Rows that one entry deletes from files, as columns of equal length >= 1 (DEL-1).

    Bitmaps are base64 text of the portable form of a 64-bit roaring bitmap. They hold positions; 0
    is the first row of the file. None is an empty bitmap. The two bitmaps of a file are disjoint.
    """

    file: Sequence[int]
    """File ids, ascending, each once."""
    rows: Sequence[int]
    """Number of positions in both bitmaps together, >= 1."""
    deleted: Sequence[str | None]
    """Positions of deleted rows."""
    updated: Sequence[str | None]
    """Positions of rows whose new version is in a file that the same entry adds."""

    def __len__(self) -> int:
        return len(self.file)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Sources of the rows of order-preserving rewrites, as columns of equal length >= 1 (LIN-1).

    Each line is a run of rows of one input. An output's rows are the rows of its lines, in order.
    """

    output: Sequence[int]
    """Index of the output among the files that the entry adds. Equal indexes are adjacent, in
    ascending order.
    """
    input: Sequence[int]
    """File id of the input."""
    start: Sequence[int]
    """Position in the input of the first row of the run."""
    rows: Sequence[int]
    """Length of the run in the input, including dropped rows."""
    dropped: Sequence[str | None]
    """Positions in the input, within the run, that the rewrite left out. Bitmap text; None for an
    empty bitmap.
    """

    def __len__(self) -> int:
        return len(self.output)


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """Relation of the rows that an entry adds to older rows (ENT-9)."""

    set: tuple[int, ...] | None
    """Ids of the columns that an UPDATE or MERGE set, ascending; None: any column may differ."""
    keys: tuple[int, ...] = ()
    """Ids of the columns that `keys` of the added files hash, in hashing order."""


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """Checkpoint that a retention horizon names, because the entries before it may be removed
    (ENT-13).
    """

    path: str
    """Path of the checkpoint's root."""
    sha256: str
    size: int
    """Size of the root in bytes."""
    version: int


@dataclass(frozen=True, slots=True)
class LogRetentionHorizon:
    """Permission to remove entries from the log (ENT-13, feature logExpiry)."""

    version: int
    """First entry that stays. Version 0 stays too."""
    previous: str
    """SHA-256 of the last entry to remove."""
    checkpoints: tuple[KeptCheckpoint, ...]
    """At least two checkpoints."""


@dataclass(frozen=True, slots=True)
class RetentionHorizon:
    """Retention horizon: this entry gives up older versions (ENT-13)."""

    version: int
    """Earliest version that is kept, >= 1."""
    log: LogRetentionHorizon | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit as the log stores it."""

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
    add: AddedFiles | OverflowFile | None = None
    remove: Sequence[int] = ()
    delete: RowDeletes | OverflowFile | None = None
    lineage: Lineage | None = None
    update: RowUpdate | None = None
    application: ApplicationTransaction | None = None
    derived_from: DerivedFrom | None = None
    cursors: tuple[CursorBack, ...] = ()
    """Cursors that a RESTORE moves back."""
    horizon: RetentionHorizon | None = None
    ends: bool = False
    """True if the table was dropped with this entry, which is its last (ENT-14)."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a later writer that readers may ignore (VER-2), kept unchanged."""

    @property
    def moves_cursors(self) -> bool:
        """Return True if the entry changes a cursor (RPL-7)."""
        return self.derived_from is not None or bool(self.cursors)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """Entry with the SHA-256 of its bytes, which the next entry must name (LOG-1)."""

    entry: Entry
    digest: str
    """SHA-256 of the whole bytes, 64 hex digits."""

    @property
    def version(self) -> int:
        """Return the version of the entry."""
        return self.entry.version
