"""Every file the log ever named, as Arrow columns with the versions it came and went. Pure.

A file is live at version v if added <= v < removed; so one structure answers for every version, and
an older snapshot stays right while newer entries are folded in. No Python object per file is kept.
Spec: ADD-2, ADD-3, ADD-9, RPL-2, RPL-3, DEL-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.log.names import entry_key
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.entry import AddedFiles, Entry, Metadata, SideFile
from tablefmt.model.positions import delete_columns
from tablefmt.model.schema import Field, Primitive, Type, is_nested
from tablefmt.model.values import decode
from tablefmt.snapshot.deletes import DeltaHistory

NEVER = np.iinfo(np.int64).max
"""`removed` of a live file."""

_COUNTED = frozenset({"nulls", "nans"})
_LONG = Primitive("long")
_PLAIN = {
    "path": Primitive("string"),
    "size": _LONG,
    "rows": _LONG,
    "footer": _LONG,
    "updated": Primitive("boolean"),
    "keys": Primitive("binary"),
    "written": _LONG,
}
_NOT_KEPT = frozenset({"keys"})
"""Columns that judge a commit, and are of no use to readers."""
_TYPED = ("partition", "lower", "upper")
_BY_FIELD = frozenset(_TYPED) | _COUNTED


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of files in the order of their ids."""

    ids: NDArray[np.int64]
    added: NDArray[np.int64]
    removed: NDArray[np.int64]
    """NEVER while live."""
    columns: pa.Table
    deleted: NDArray[np.int64]
    """Rows gone at the last version folded in."""

    def __len__(self) -> int:
        return len(self.ids)


class FileHistory:
    """Files by segments, up to one version. Never changed: `fold` gives another."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.deltas = DeltaHistory()
        self.version = -1
        """The last version folded in."""
        self.metadata_version = 0
        """Of the newest entry folded in that has metadata."""
        self.types: Mapping[int, Type] = {}
        self.partition_columns: frozenset[str] = frozenset()
        self.distinct_paths = 0
        """Files ever when the paths of the live ones were last found to differ."""
        self.rows = self.bytes = self.deleted = 0

    def fold(
        self,
        entries: Iterable[Entry],
        side_files: Mapping[int, pa.Table] | None = None,
        side_deletes: Mapping[int, pa.Table] | None = None,
    ) -> FileHistory:
        """The history with the entries that follow, in order. This one stays as it is.

        Args:
            entries: contiguous from `version + 1`.
            side_files: by version, the columns of entries whose `add` is in a side file.
            side_deletes: by version, DELETE_COLUMNS of those whose `delete` is.

        Raises:
            CorruptEntryError: RPL-2 a removed file is not live, RPL-3 wrong sums, ADD-1, DEL-1,
                VAL-1.
        """
        wanted = list(entries)
        sides = (side_files or {}, side_deletes or {})
        try:
            return _Folding(self, *sides).all(wanted)
        except CorruptEntryError:
            # Several at once are taken in by parts; one by one they name the first that is wrong.
            found = _Folding(self, *sides)
            for entry in wanted:
                found.all([entry])
            raise

    def table(self) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """All files ever: columns, ids, added and removed versions, row by row the same file.

        Raises:
            CorruptEntryError: ADD-1, two live files have one path.
        """
        segments = self.segments
        if not segments:
            empty = np.zeros(0, np.int64)
            names = ("path", "size", "rows", *sorted(self.partition_columns))
            return _table({name: [] for name in names}, self.types), empty, empty, empty
        if len(segments) > 1:
            segments = self.segments = [_joined(segments)]
        only = segments[0]
        if len(only) > self.distinct_paths:
            _check_distinct(only)
            self.distinct_paths = len(only)
        return only.columns, only.ids, only.added, only.removed


class _Folding:
    """A history that is being made of an older one, whose arrays it copies before it writes."""

    def __init__(
        self,
        before: FileHistory,
        side_files: Mapping[int, pa.Table],
        side_deletes: Mapping[int, pa.Table],
    ) -> None:
        self._made = FileHistory()
        made = self._made
        made.segments = list(before.segments)
        made.deltas = before.deltas.copy()
        made.version, made.distinct_paths = before.version, before.distinct_paths
        made.metadata_version = before.metadata_version
        made.types, made.partition_columns = before.types, before.partition_columns
        made.rows, made.bytes, made.deleted = before.rows, before.bytes, before.deleted
        self._own: set[int] = set()
        """Segments, by `id`, whose arrays are this one's alone."""
        self._side_files = side_files
        self._side_deletes = side_deletes

    def all(self, entries: Sequence[Entry]) -> FileHistory:
        """Take in entries that follow: first what a run of them adds, then what each takes out."""
        first = 0
        while first < len(entries):
            last = first + 1
            while last < len(entries) and _is_in_run(entries[last]):
                last += 1
            self._run(entries[first:last])
            first = last
        return self._made

    def _run(self, entries: Sequence[Entry]) -> None:
        """Of these at most the first has metadata, or files in a side file."""
        made, tail = self._made, _Tail()
        sums: list[tuple[int, int]] = []
        for entry in entries:
            assert entry.version == made.version + 1 + len(sums), (entry.version, made.version)
            if entry.metadata is not None:
                self._learn(entry.metadata)
                made.metadata_version = entry.version
            sums.append(self._add(entry, tail))
        self._flush(tail)
        deltas: list[tuple[int, pa.Table, NDArray[np.bool_]]] = []
        for entry, (rows, size) in zip(entries, sums, strict=True):
            if entry.remove:
                self._remove(entry)
            made.rows += rows
            made.bytes += size
            if entry.delete is not None:
                deltas.append(self._delete(entry))
            totals = (entry.totals.rows, entry.totals.bytes, entry.totals.deleted)
            if totals != (made.rows, made.bytes, made.deleted):
                raise _bad(entry, "RPL-3", "its sums of rows or bytes are not those of its files")
            made.version = entry.version
        made.deltas.push(deltas)

    def _learn(self, metadata: Metadata) -> None:
        made = self._made
        types = dict(made.types)
        for column in metadata.schema.fields:
            if types.setdefault(column.id, column.type) != column.type:
                types[column.id] = column.type
                self._retype(column)
        made.types = types
        made.partition_columns = frozenset(f"partition.{i}" for i in metadata.partition_by)

    def _retype(self, column: Field) -> None:
        """Bounds of older files in the column's new type (SCH-9), so that one type serves all."""
        for at, segment in enumerate(self._made.segments):
            columns = typed_bounds(segment.columns, [column])
            self._put(at, replace(segment, columns=columns), owned=id(segment) in self._own)

    def _put(self, at: int, segment: Segment, *, owned: bool) -> None:
        self._own.discard(id(self._made.segments[at]))
        self._made.segments[at] = segment
        if owned:
            self._own.add(id(segment))

    def _owned(self, at: int) -> Segment:
        """A segment whose `removed` and `deleted` may be written to."""
        segment = self._made.segments[at]
        if id(segment) not in self._own:
            removed, deleted = segment.removed.copy(), segment.deleted.copy()
            self._put(at, replace(segment, removed=removed, deleted=deleted), owned=True)
        return self._made.segments[at]

    def _add(self, entry: Entry, tail: _Tail) -> tuple[int, int]:
        """Take in the files of an entry; their rows and bytes."""
        if entry.add is None:
            return 0, 0
        if isinstance(entry.add, SideFile):
            return self._add_side(entry, self._side_files[entry.version])
        self._check_partitions(entry, entry.add.columns)
        first = entry.totals.next_id - len(entry.add)
        tail.take(entry.add, first, entry.version, self._made.metadata_version)
        return entry.add.rows, entry.add.bytes

    def _check_partitions(self, entry: Entry, names: Iterable[str]) -> None:
        if {n for n in names if n.startswith("partition.")} != self._made.partition_columns:
            raise _bad(entry, "ADD-1", "its files lack a partition value, or have one too many")

    def _flush(self, tail: _Tail) -> None:
        if not tail.ids:
            return
        ids, added, columns = tail.drain()
        try:
            table = _table(columns, self._made.types)
        except CorruptEntryError:
            _blame(added, columns, self._made.types)
            raise
        self._push(ids, added, table)

    def _add_side(self, entry: Entry, columns: pa.Table) -> tuple[int, int]:
        count = columns.num_rows
        if entry.add is None or count != len(entry.add):
            raise _bad(entry, "ADD-6", "the side file does not hold the files it should")
        self._check_partitions(entry, columns.column_names)
        columns = _typed(entry, columns, self._made.types)
        columns = _with_written(entry, columns, self._made.metadata_version)
        first = entry.totals.next_id - count
        ids = np.arange(first, first + count, dtype=np.int64)
        self._push(ids, np.full(count, entry.version, np.int64), columns)
        return int(np.sum(columns["rows"].to_numpy())), int(np.sum(columns["size"].to_numpy()))

    def _push(self, ids: NDArray[np.int64], added: NDArray[np.int64], columns: pa.Table) -> None:
        removed, deleted = np.full(len(ids), NEVER, np.int64), np.zeros(len(ids), np.int64)
        segments = self._made.segments
        segments.append(Segment(ids, added, removed, columns, deleted))
        # Like a binary counter: every file is copied O(log n) times over a long life.
        while len(segments) > 1 and len(segments[-2]) <= 2 * len(segments[-1]):
            self._own.difference_update(map(id, segments[-2:]))
            segments[-2:] = [_joined(segments[-2:])]
        self._own.add(id(segments[-1]))

    def _found(
        self, wanted: NDArray[np.int64], before: int
    ) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Segments that hold files of these ids below `before`: places in them and in `wanted`."""
        for at, segment in enumerate(self._made.segments):
            places = np.searchsorted(segment.ids, wanted)
            inside = np.flatnonzero((places < len(segment)) & (wanted < before))
            lines = inside[segment.ids[places[inside]] == wanted[inside]]
            if len(lines):
                yield at, places[lines], lines

    def _remove(self, entry: Entry) -> None:
        made = self._made
        wanted = np.asarray(entry.remove, np.int64)
        count = 0 if entry.add is None else len(entry.add)
        found = 0
        for at, hits, _ in self._found(wanted, entry.totals.next_id - count):
            segment = self._owned(at)
            if np.any(segment.removed[hits] != NEVER):
                raise _bad(entry, "RPL-2", "it removes a file that was removed before")
            segment.removed[hits] = entry.version
            gone = segment.columns.select(["rows", "size"]).take(pa.array(hits))
            made.rows -= int(np.sum(gone["rows"].to_numpy()))
            made.bytes -= int(np.sum(gone["size"].to_numpy()))
            made.deleted -= int(np.sum(segment.deleted[hits]))
            found += len(hits)
        if found != len(wanted):
            raise _bad(entry, "RPL-2", "it removes a file that was never added")

    def _delete(self, entry: Entry) -> tuple[int, pa.Table, NDArray[np.bool_]]:
        """Count rows that an entry takes out; what `DeltaHistory.push` takes."""
        columns = _deletes_of(entry, self._side_deletes)
        wanted, rows = columns["file"].to_numpy(), columns["rows"].to_numpy()
        takes = np.zeros(len(wanted), bool)
        found = 0
        for at, hits, lines in self._found(wanted, entry.totals.next_id):
            segment = self._owned(at)
            live = segment.removed[hits] == NEVER
            if np.any(~live & (segment.removed[hits] != entry.version)):
                raise _bad(entry, "DEL-1", "it takes rows out of a file that was removed before")
            counts = segment.deleted[hits] + rows[lines]
            if np.any(counts > segment.columns["rows"].take(pa.array(hits)).to_numpy()):
                raise _bad(entry, "DEL-1", "it takes more rows out of a file than there are")
            segment.deleted[hits[live]] = counts[live]
            takes[lines] = live
            found += len(lines)
        if found != len(wanted):
            raise _bad(entry, "DEL-1", "it takes rows out of a file that was never added")
        self._made.deleted += int(np.sum(rows[takes]))
        return entry.version, columns, takes


def _is_in_run(entry: Entry) -> bool:
    """Whether an entry can be taken in together with the one before it."""
    return entry.metadata is None and not isinstance(entry.add, SideFile)


class _Tail:
    """Columns of several small entries, gathered so that Arrow arrays are built once."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._added: list[int] = []
        self._columns: dict[str, list[Any]] = {}

    def take(self, files: AddedFiles, first_id: int, version: int, under: int) -> None:
        """Add the files of one entry; a column that one entry lacks is NULL for its files.

        Args:
            files: its `add`.
            first_id: the id of the first.
            version: the entry's.
            under: of the newest metadata: what files that do not say it were written under.
        """
        before, count = len(self.ids), len(files)
        self.ids.extend(range(first_id, first_id + count))
        self._added.extend([version] * count)
        written = files.columns.get("written", [None] * count)
        known = {"written": [under if v is None else v for v in written]}
        for name, values in {**files.columns, **known}.items():
            if name in _NOT_KEPT:
                continue
            column = self._columns.setdefault(name, [])
            column.extend([None] * (before - len(column)))
            column.extend(values)

    def drain(self) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, list[Any]]]:
        """Ids, versions that added them, and columns of what was taken; nothing is left."""
        count = len(self.ids)
        for column in self._columns.values():
            column.extend([None] * (count - len(column)))
        result = (np.array(self.ids, np.int64), np.array(self._added, np.int64), self._columns)
        self.ids, self._added, self._columns = [], [], {}
        return result


def _deletes_of(entry: Entry, side_deletes: Mapping[int, pa.Table]) -> pa.Table:
    assert entry.delete is not None
    if isinstance(entry.delete, SideFile):
        return side_deletes[entry.version]
    try:
        return delete_columns(entry.delete)
    except CorruptEntryError as error:
        raise _bad(entry, error.rule, error.detail) from None


def _bad(entry: Entry, rule: str, message: str) -> CorruptEntryError:
    return CorruptEntryError(message, key=entry_key(entry.version), rule=rule)


def column_type(name: str, types: Mapping[int, Type]) -> Type | None:
    """The type of an `add` column, None for one of a field that no schema has named."""
    group, dot, field_id = name.partition(".")
    if not dot:
        return _PLAIN[name]
    return _LONG if group in _COUNTED else types.get(int(field_id))


def _table(columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]) -> pa.Table:
    arrays = {}
    for name, values in columns.items():
        kind = column_type(name, types)
        if kind is not None:
            arrays[name] = decode(values, kind)
    return pa.table(arrays)


def _blame(
    added: NDArray[np.int64], columns: Mapping[str, Sequence[Any]], types: Mapping[int, Type]
) -> None:
    """Name the entry whose values do not fit; the columns hold those of several."""
    for at, version in enumerate(added):
        try:
            _table({name: values[at : at + 1] for name, values in columns.items()}, types)
        except CorruptEntryError as error:
            key = entry_key(int(version))
            raise CorruptEntryError(error.detail, key=key, rule=error.rule) from None


def _typed(entry: Entry, columns: pa.Table, types: Mapping[int, Type]) -> pa.Table:
    """A side file's columns as `_table` makes them of an entry."""
    known = [name for name in columns.column_names if _is_known(name) and name not in _NOT_KEPT]
    kinds = {name: column_type(name, types) for name in known}
    wanted = {name: arrow_type(kind) for name, kind in kinds.items() if kind is not None}
    try:
        typed = columns.select(list(wanted)).cast(pa.schema(wanted))
        needed = {"path", "size", "rows", "updated"}.intersection(wanted) | {"path", "size", "rows"}
        if any(typed[name].null_count for name in needed):
            raise ValueError("a path, a size or a row count is missing")
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _bad(entry, "ADD-6", f"the side file has columns that do not fit: {error}") from None
    return typed


def _with_written(entry: Entry, columns: pa.Table, under: int) -> pa.Table:
    """A side file's columns with the version that each file was written under. Spec: ADD-9."""
    at = columns.schema.get_field_index("written")
    if at < 0:
        values = np.full(columns.num_rows, under, np.int64)
        return columns.append_column("written", pa.array(values))
    written = pc.fill_null(columns.column(at), under)
    least_and_most = pc.min_max(written).as_py()
    if not 0 <= least_and_most["min"] <= least_and_most["max"] <= entry.version:
        raise _bad(entry, "ADD-9", "a file was written under a version that is not there")
    return columns.set_column(at, "written", written)


def _is_known(name: str) -> bool:
    group, dot, field_id = name.partition(".")
    return field_id.isdigit() and group in _BY_FIELD if dot else group in _PLAIN


def _check_distinct(files: Segment) -> None:
    live = np.flatnonzero(files.removed == NEVER)
    paths = files.columns["path"].take(pa.array(live))
    if pc.count_distinct(paths).as_py() == len(live):
        return
    counts = pc.value_counts(paths.combine_chunks())
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
    at = live[np.flatnonzero(pc.equal(paths, twice).to_numpy())[-1]]
    key = entry_key(int(files.added[at]))
    raise CorruptEntryError(f"it adds {twice!r:.100}, a live file", key=key, rule="ADD-1")


def typed_bounds(files: pa.Table, fields: Iterable[Field]) -> pa.Table:
    """The same files with bounds and partition values in the types of these columns.

    A value that the type cannot hold becomes unknown (VAL-4).
    """
    for field in fields:
        if is_nested(field.type):
            continue
        target = arrow_type(field.type)
        for group in _TYPED:
            at = files.schema.get_field_index(f"{group}.{field.id}")
            if at >= 0 and files.schema.field(at).type != target:
                column = _cast(files.column(at), target)
                files = files.set_column(at, f"{group}.{field.id}", column)
    return files


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    try:
        if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
            # Arrow asks for room for every integer of the type; what counts is these.
            values = values.cast(pa.decimal128(38, 0))
        return values.cast(target)
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(values), target)], target)


def added_table(files: AddedFiles, metadata: Metadata) -> pa.Table:
    """The columns of one entry, typed by its metadata: what a side file holds (ADD-6)."""
    return _table(files.columns, {f.id: f.type for f in metadata.schema.fields})


def _joined(segments: list[Segment]) -> Segment:
    columns = pa.concat_tables([s.columns for s in segments], promote_options="permissive")
    return Segment(
        np.concatenate([s.ids for s in segments]),
        np.concatenate([s.added for s in segments]),
        np.concatenate([s.removed for s in segments]),
        columns.combine_chunks(),
        np.concatenate([s.deleted for s in segments]),
    )
