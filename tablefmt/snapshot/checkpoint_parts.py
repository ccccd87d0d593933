"""Files and deleted rows in the parts of a checkpoint, read on demand and checked.

Spec: CKP-3, CKP-4, CKP-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.expressions.file_pruning import Mask, may_match
from tablefmt.expressions.predicate import Predicate, fields
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
from tablefmt.snapshot.part_file import ROW_GROUP, PartFile
from tablefmt.snapshot.segment_reuse import members
from tablefmt.snapshot.segments import FileColumns, Places

if TYPE_CHECKING:
    from typing_extensions import Self

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
        return self._numbers_in(self._lines(_NUMBERS))

    def _numbers_in(self, columns: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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

    @property
    def least_id(self) -> int:
        """Return the number, as the base class, from the root."""
        return self.segment.ids[0]

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
        at = pa.array(places)
        columns = {name: self._known[name].take(at) for name in asked if name in self._known}
        if "_numbers" in self.__dict__:
            numbers = {"id": self.ids, "added": self.added}
            columns |= {n: pa.array(numbers[n][places]) for n in asked if n in numbers}
        read = self._read_at([n for n in asked if n not in columns], self.lines[places])
        columns |= dict(zip(read.column_names, read.columns, strict=True))
        return pa.table({name: columns[name] for name in asked if name in columns})

    def _lines(self, names: Sequence[str]) -> pa.Table:
        """Return columns of every line of the part, compared with the root's summary."""
        asked = [name for name in names if name in self._columns]
        more = list(self._needed_checks(asked))
        # Almost every plan needs the ids. Each read of a part takes longer than a few numbers.
        along = "_numbers" not in self.__dict__ and self.segment.files <= ROW_GROUP
        more += [name for name in _NUMBERS if along and name not in asked]
        columns = self._checked(self._file.read([*asked, *more]))
        with self._readable():
            self._refuse(sums_problem(columns, self.segment, self._limits))
        if along:
            self.__dict__["_numbers"] = self._numbers_in(columns)
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
        more = [name for name in self._needed_checks(names) if name == "import"]
        # Check only these lines. The other ones of their row groups may be many, and are not used.
        taken = self._checked(self._file.read_lines([*names, *more], lines))
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
