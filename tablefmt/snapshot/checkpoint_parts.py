"""Parts of a checkpoint: Parquet objects, written once, read on demand by columns and row groups.

They hold the files and the deleted rows. All data read is checked: the footer by its SHA-256, pages
by their checksums.

Spec: CKP-3, CKP-4, CKP-6.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError, LostCheckpointError
from tablefmt.expressions.file_pruning import Mask, may_match
from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.log.bounded_parquet import footer_of, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.object_names import part_key
from tablefmt.model.cached_property import cached_property
from tablefmt.model.positions import DELETE_COLUMNS
from tablefmt.model.schema import Field
from tablefmt.snapshot.checkpoint_checks import (
    DELETE_NEEDED,
    CheckpointLimits,
    columns_problem,
    deletes_problem,
    deletes_sum_problem,
    delta_problem,
    lines_problem,
    numbers_problem,
    summaries_of,
    sums_problem,
)
from tablefmt.snapshot.checkpoint_root import Part, SegmentPart, live_files
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.segment_reuse import members
from tablefmt.snapshot.segments import FileColumns, Places
from tablefmt.store.buffers import PositionedReader, lent
from tablefmt.store.object_store import KeyNotFoundError, Range, Store

if TYPE_CHECKING:
    from typing_extensions import Self

ROW_GROUP = 1 << 13
"""Lines per row group. A reader of all columns of few files reads this many lines."""

GAP_BYTES = 64 << 10
"""Ranges with at most this gap are requested as one."""

_DELTA = ("id", "added", "size", "rows", "footer", "written", "file", "version")


def encode_part(columns: pa.Table) -> bytes:
    """Return the bytes of a Parquet object with these columns."""
    sink = pa.BufferOutputStream()
    encodings = {name: "DELTA_BINARY_PACKED" for name in _DELTA if name in columns.column_names}
    encodings |= {name: "DELTA_BYTE_ARRAY" for name in ("path",) if name in columns.column_names}
    pq.write_table(
        columns,
        sink,
        row_group_size=ROW_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=[n for n in columns.column_names if n.startswith(("partition.", "nulls."))],
        column_encoding=encodings,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=True,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def write_part(store: Store, nonce: str, columns: pa.Table) -> Part:
    """Store columns as a part with a name of its own."""
    body = encode_part(columns)
    key = part_key(nonce)
    store.put(key, body)
    footer = struct.unpack("<I", body[-8:-4])[0] + 8
    return Part(
        path=key,
        size=len(body),
        sha256=digest(body),
        footer=footer,
        footer_sha256=digest(body[-footer:]),
        files=columns.num_rows,
    )


class PartFile:
    """Reader of one part."""

    def __init__(self, store: Store, part: Part) -> None:
        self.part = part
        self._store = store

    def lost(self, reason: object) -> LostCheckpointError:
        """Return the error that names this part."""
        text = str(reason).splitlines()[0][:200]
        message = f"a part of a checkpoint cannot be read: {text}"
        return LostCheckpointError(message, key=self.part.path, rule="CKP-3")

    @cached_property
    def footer(self) -> pq.FileMetaData:
        """Return the Parquet footer. Raises LostCheckpointError."""
        part = self.part
        try:
            end = self._store.get_range(part.path, part.size - part.footer, part.footer + 1)
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        if digest(end) != part.footer_sha256:
            raise self.lost("its footer differs from the root")
        try:
            footer = footer_of(end)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.lost(error) from None
        if not rows_are(footer, part.files):
            raise self.lost("its number of lines differs from the root")
        return footer

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of its columns. Raises LostCheckpointError."""
        try:
            return self.footer.schema.to_arrow_schema()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.lost(error) from None

    @cached_property
    def starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the first line of each row group, and the number of lines."""
        footer = self.footer
        rows = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
        return np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return columns of all lines, or of some row groups, ascending; one chunk each.

        Raises:
            LostCheckpointError: the part is missing or damaged. StoreError: no answer.
        """
        known = list(names)
        chosen = list(range(self.footer.num_row_groups) if groups is None else groups)
        try:
            opened = self._store.open_file(self.part.path)
            source = opened or pa.PythonFile(lent(self._fetched(known, chosen)), mode="r")
            with source:
                columns = read_bounded(source, self.footer, known, chosen)
        except KeyNotFoundError:
            raise self.lost("it is missing") from None
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise self.lost(error) from None
        if columns.num_rows != sum(map(self._lines_of, chosen)):
            raise self.lost("its number of lines differs from its footer")
        return columns

    def _lines_of(self, group: int) -> int:
        return int(self.starts[group + 1] - self.starts[group])

    def _fetched(self, names: Collection[str], groups: Iterable[int]) -> io.RawIOBase:
        """Return the object as a file that holds these columns, fetched in one round of
        requests.
        """
        spans = []
        wanted = set(names)
        for at in groups:
            group = self.footer.row_group(at)
            for number in range(group.num_columns):
                column = group.column(number)
                if column.path_in_schema in wanted:
                    offsets = (column.dictionary_page_offset, column.data_page_offset)
                    start = min(offset for offset in offsets if offset)
                    spans.append((start, start + column.total_compressed_size))
        ranges = [(self.part.path, start, end - start) for start, end in _merged(sorted(spans))]
        bodies = self._store.get_ranges(ranges)
        if any(body is None for body in bodies):
            raise KeyNotFoundError(self.part.path)
        return _Ranges(self.part.size, ranges, [body or b"" for body in bodies])


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1] + GAP_BYTES:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class _Ranges(PositionedReader):
    """Parts of an object as a file of its full length. A read outside them returns no bytes."""

    def __init__(self, size: int, ranges: Sequence[Range], bodies: Sequence[bytes]) -> None:
        super().__init__(size)
        self._held = [(start, body) for (_, start, _), body in zip(ranges, bodies, strict=True)]

    def read(self, size: int = -1) -> bytes:
        """Read as any file does."""
        for start, body in self._held:
            if start <= self._at < start + len(body):
                end = len(body) if size < 0 else self._at - start + size
                piece = body[self._at - start : end]
                self._at += len(piece)
                return piece
        return b""


_NUMBERS = ("id", "added")
_KEPT = frozenset({"id", "added", "path"})
"""Columns that are read rarely or for few files, so they are not cached."""


class StoredColumns(FileColumns):
    """Files of one manifest segment of a checkpoint.

    Columns that were read for all files are cached, except paths.
    """

    def __init__(
        self,
        file: PartFile,
        segment: SegmentPart,
        limits: CheckpointLimits,
        places: Places | None = None,
        later: Mapping[int, Field] | None = None,
    ) -> None:
        """Take the lines of a part that are files.

        Args:
            file: the part.
            segment: its description in the root.
            limits: the root's limits for all parts.
            places: the lines, ascending; by default the lines of files in this checkpoint.
            later: columns whose types bounds and partition values are converted to, if different.
        """
        self.segment = segment
        self._file = file
        self._limits = limits
        self._later = limits.fields if later is None else later
        self._chosen = places
        self._count = live_files(segment) if places is None else len(places)
        self._known: dict[str, pa.ChunkedArray] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def path(self) -> str:
        """Return the name of the part."""
        return self._file.part.path

    @cached_property
    def _places(self) -> Places | None:
        """Return the lines that are files, ascending; None: all of them."""
        removed = self.segment.gone
        if self._chosen is not None or removed is None:
            return self._chosen
        stays = np.ones(self.segment.files, bool)
        stays[np.asarray(removed.to_array(), np.int64)] = False
        return np.flatnonzero(stays)

    @cached_property
    def lines(self) -> Places:
        """Return the line of each file in the part."""
        return np.arange(self._count) if self._places is None else self._places

    @cached_property
    def names(self) -> Sequence[str]:
        """Return the names, as the base class."""
        return [name for name in self._columns if name not in _NUMBERS]

    @cached_property
    def _columns(self) -> Sequence[str]:
        """Return the names of the part's columns, after a check of their types."""
        self._refuse(columns_problem(self._file.schema, self._limits))
        names: list[str] = self._file.schema.names
        return names

    def _refuse(self, problem: str | None) -> None:
        if problem is not None:
            raise self._file.lost(problem)

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids, and the versions that added them, of all lines."""
        columns = self._lines(_NUMBERS)
        ids, added = (columns[name].to_numpy() for name in _NUMBERS)
        self._refuse(numbers_problem(ids, added, self.segment))
        return ids, added

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Return the ids, as the base class."""
        ids = self._numbers[0]
        return ids if self._places is None else ids[self._places]

    @cached_property
    def added(self) -> NDArray[np.int64]:
        """Return the versions, as the base class."""
        added = self._numbers[1]
        return added if self._places is None else added[self._places]

    @property
    def all_ids(self) -> NDArray[np.int64]:
        """Return the ids of every line of the part, including removed files."""
        return self._numbers[0]

    def added_by(self, version: int) -> Mask:
        """Return the mask, as the base class. Usually this reads nothing."""
        if version >= self.segment.added:
            return np.ones(self._count, bool)
        return super().added_by(version)

    def find(self, ids: NDArray[np.int64]) -> tuple[Places, Places]:
        """Return the places, as the base class."""
        first, last = self.segment.ids
        inside = np.flatnonzero((ids >= first) & (ids <= last))
        if not len(inside):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        places, lines = super().find(ids[inside])
        return places, inside[lines]

    def columns(self, names: Iterable[str]) -> pa.Table:
        """Return the columns, as the base class."""
        there = set(self._columns)
        asked = [name for name in names if name in there]
        missing = [name for name in asked if name not in self._known]
        read = self._read(missing) if missing else None
        columns = dict(self._known)
        if read is not None:
            columns |= {name: read[name] for name in missing}
            if len(missing) < len(self.names):
                self._known.update({n: read[n] for n in missing if n not in _KEPT})
        columns = {name: columns[name] for name in asked}
        return pa.table(columns) if columns else pa.table({"": np.zeros(self._count)}).select([])

    def take(self, places: Places, names: Iterable[str] | None = None) -> pa.Table:
        """Return the rows, as the base class, at places in any order."""
        asked = list(self.names if names is None else names)
        if len(places) * 2 > self._count or all(name in self._known for name in asked):
            return self.columns(asked).take(pa.array(places))
        return self._read_at(asked, self.lines[places])

    def _lines(self, names: Sequence[str]) -> pa.Table:
        """Return columns of every line of the part, compared with the root's summary."""
        asked = [name for name in names if name in self._columns]
        columns = self._checked(self._file.read([*asked, *self._needed_checks(asked)]))
        with self._readable():
            self._refuse(sums_problem(columns, self.segment, self._limits))
        return columns.select(asked)

    def _needed_checks(self, asked: Sequence[str]) -> list[str]:
        """Return the columns that are needed only to check the requested ones."""
        more = []
        # Counts can be checked only together with the number of rows.
        if "rows" not in asked and any("." in name for name in asked):
            more.append("rows")
        # Imported files have paths of other forms.
        if "path" in asked and "import" in self._columns and "import" not in asked:
            more.append("import")
        return more

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Report invalid values in the root as a lost part."""
        try:
            yield
        except (CorruptEntryError, pa.ArrowException, OverflowError) as error:
            raise self._file.lost(error) from None

    def _checked(self, columns: pa.Table) -> pa.Table:
        """Return the columns after the checks of the log's rules, with typed bounds."""
        typed = typed_bounds(columns, self._limits.fields.values())
        self._refuse(lines_problem(typed, self.segment, self._limits))
        return typed

    def _read(self, names: Sequence[str]) -> pa.Table:
        columns = self._lines(names)
        if self._places is not None:
            columns = columns.take(pa.array(self._places)).combine_chunks()
        return typed_bounds(columns, self._later.values())

    def _read_at(self, names: Sequence[str], lines: Places) -> pa.Table:
        """Return columns at some lines, read from the row groups of these lines."""
        names = [name for name in names if name in self._columns]
        starts = self._file.starts
        groups, group_of = np.unique(
            np.searchsorted(starts, lines, side="right") - 1, return_inverse=True
        )
        more = [name for name in self._needed_checks(names) if name == "import"]
        read = self._file.read([*names, *more], groups.tolist())
        sizes = np.diff(starts)[groups]
        before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        at = before[group_of] + (lines - starts[groups][group_of])
        # Check only these lines. The other ones of their row groups may be many, and are not used.
        taken = self._checked(read.take(pa.array(at)).combine_chunks())
        return typed_bounds(taken.select(names), self._later.values())

    def narrowed(self, places: Places) -> FileColumns:
        """Return the files, as the base class."""
        chosen = self.lines[places]
        return StoredColumns(self._file, self.segment, self._limits, chosen, self._later)

    def retyped(self, column: Field) -> FileColumns:
        """Return the columns, as the base class."""
        later = {**self._later, column.id: column}
        return StoredColumns(self._file, self.segment, self._limits, self._places, later)

    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """Return the summary, as the base class, from the root. Spec: CKP-4."""
        known = self.segment.bounds.get(str(field_id), {})
        field = self._limits.fields.get(field_id)
        if field is None or not known:
            return {}
        with self._readable():
            table = pa.table(summaries_of([known], field))
        table = typed_bounds(table, [self._later[field_id]])
        return {name: table[name] for name in table.column_names if not table[name].null_count}

    @property
    def total_rows(self) -> int | None:
        """Return the number of rows, as the base class."""
        return self.segment.rows

    @classmethod
    def each_may_match(
        cls, files: Sequence[Self], predicate: Predicate, partition_ids: frozenset[int]
    ) -> Mask:
        """Return the mask, as the base class. Segments with the same types are checked at once."""
        ids = sorted(fields(predicate))
        alike: dict[tuple[int, ...], list[int]] = {}
        for at, file in enumerate(files):
            alike.setdefault(file._types(ids), []).append(at)
        mask = np.zeros(len(files), bool)
        for places in alike.values():
            some = [files[at] for at in places]
            try:
                columns = cls._summaries(some, ids)
            except (CorruptEntryError, pa.ArrowException, OverflowError):
                # The check of each segment names the one whose summary is damaged.
                mask[places] = super().each_may_match(some, predicate, partition_ids)
                continue
            mask[places] = may_match(predicate, columns, frozenset())
        return mask

    def _types(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the identities of columns, as the root has them and as they are now."""
        return tuple(id(known.get(i)) for i in ids for known in (self._limits.fields, self._later))

    @classmethod
    def _summaries(cls, files: Sequence[Self], ids: Iterable[int]) -> pa.Table:
        """Return `rows` and the summaries of some columns of segments with the same types, one
        line for each segment.
        """
        arrays: dict[str, Any] = {"rows": pa.array([f.total_rows for f in files], pa.int64())}
        limits, later = files[0]._limits, files[0]._later
        for field in (limits.fields[i] for i in ids if i in limits.fields):
            known = [file.segment.bounds.get(str(field.id), {}) for file in files]
            table = typed_bounds(pa.table(summaries_of(known, field)), [later[field.id]])
            arrays.update(zip(table.column_names, table.columns, strict=True))
        return pa.table(arrays)


class StoredDeletes:
    """All parts of `deletes` of a checkpoint, read together at the first access.

    The deleted rows of live files must add up to the number in the entry. Otherwise a wrong file id
    in a part would bring deleted rows back.
    """

    def __init__(
        self, files: Sequence[PartFile], live: Sequence[FileColumns], limits: CheckpointLimits
    ) -> None:
        self._files = files
        self._live = live
        self._limits = limits
        self.parts = tuple(StoredDeltas(self, at, file.part) for at, file in enumerate(files))

    @cached_property
    def columns(self) -> Sequence[pa.Table]:
        """Return the columns of each part."""
        parts = [self._of(file) for file in self._files]
        whole = pa.concat_tables(parts)
        files, versions, rows = (whole[n].to_numpy() for n in ("file", "version", "rows"))
        ids = np.concatenate([np.zeros(0, np.int64), *(some.ids for some in self._live)])
        problem = deletes_sum_problem(
            files, versions, rows, members(files, ids), self._limits.deleted
        )
        if problem is not None:
            raise self._files[0].lost(problem)
        return parts

    def _of(self, file: PartFile) -> pa.Table:
        problem = deletes_problem(file.schema)
        if problem is not None:
            raise file.lost(problem)
        columns = file.read(DELETE_NEEDED)
        problem = delta_problem(columns, self._limits)
        if problem is not None:
            raise file.lost(problem)
        maps = columns.select(DELETE_COLUMNS.names).cast(DELETE_COLUMNS)
        return maps.append_column("version", columns["version"])


class StoredDeltas(Deltas):
    """Deleted rows in one part of a checkpoint."""

    def __init__(self, whole: StoredDeletes, at: int, part: Part) -> None:
        # The base class is a frozen dataclass, so set the attributes directly.
        self.__dict__["whole"] = whole
        self.__dict__["at"] = at
        self.__dict__["part"] = part
        self.__dict__["unions"] = {}

    def __len__(self) -> int:
        return int(self.__dict__["part"].files)

    @property
    def path(self) -> str:
        """Return the name of the part."""
        return str(self.__dict__["part"].path)

    @property
    def _columns(self) -> pa.Table:
        whole: StoredDeletes = self.__dict__["whole"]
        return whole.columns[self.__dict__["at"]]

    @cached_property
    def file(self) -> NDArray[np.int64]:
        """Return the file ids, as the base class."""
        file: NDArray[np.int64] = self._columns["file"].to_numpy()
        return file

    @cached_property
    def version(self) -> NDArray[np.int64]:
        """Return the versions, as the base class."""
        version: NDArray[np.int64] = self._columns["version"].to_numpy()
        return version

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return the row counts, as the base class."""
        rows: NDArray[np.int64] = self._columns["rows"].to_numpy()
        return rows

    @cached_property
    def takes(self) -> NDArray[np.bool_]:
        """Return the mask, as the base class: all rows are deleted."""
        takes = np.ones(self._columns.num_rows, bool)
        takes.setflags(write=False)
        return takes

    @cached_property
    def maps(self) -> pa.Table:
        """Return the bitmaps, as the base class."""
        return self._columns.select(DELETE_COLUMNS.names)
