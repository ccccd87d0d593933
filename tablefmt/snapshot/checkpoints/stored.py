"""The files of a checkpoint, read as they are asked for: columns, and rows that were taken out.

Spec: CKP-3, CKP-4, CKP-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.model.cached import cached_property
from tablefmt.model.positions import DELETE_COLUMNS
from tablefmt.model.schema import Field
from tablefmt.snapshot.checkpoints.checks import (
    DELETE_NEEDED,
    Limits,
    columns_problem,
    deletes_problem,
    deletes_sum_problem,
    delta_problem,
    lines_problem,
    numbers_problem,
    summary_of,
    sums_problem,
)
from tablefmt.snapshot.checkpoints.layout import members
from tablefmt.snapshot.checkpoints.parts import PartFile
from tablefmt.snapshot.checkpoints.root import Part, SegmentPart, live_files
from tablefmt.snapshot.deletes import Deltas
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.segments import FileColumns, Mask, Places

_NUMBERS = ("id", "added")
_KEPT = frozenset({"id", "added", "path"})
"""Columns that are asked for rarely, or of few files: they are not kept here."""


class StoredColumns(FileColumns):
    """The files of one segment of a checkpoint.

    Columns that were asked for of all files are kept, but for the paths.
    """

    def __init__(
        self,
        file: PartFile,
        segment: SegmentPart,
        limits: Limits,
        places: Places | None = None,
        later: Mapping[int, Field] | None = None,
    ) -> None:
        """The lines of a part that are files.

        Args:
            file: the part.
            segment: what the root says of it.
            limits: what the root says of all parts.
            places: the lines, ascending; by default those that are not gone.
            later: columns in whose types bounds and partition values are given, if others.
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
        """The part's."""
        return self._file.part.path

    @cached_property
    def _places(self) -> Places | None:
        """The lines that are files, ascending; None: all are."""
        gone = self.segment.gone
        if self._chosen is not None or gone is None:
            return self._chosen
        stays = np.ones(self.segment.files, bool)
        stays[np.asarray(gone.to_array(), np.int64)] = False
        return np.flatnonzero(stays)

    @cached_property
    def lines(self) -> Places:
        """The line of each file in the part."""
        return np.arange(self._count) if self._places is None else self._places

    @cached_property
    def names(self) -> Sequence[str]:
        """As the base class."""
        return [name for name in self._columns if name not in _NUMBERS]

    @cached_property
    def _columns(self) -> Sequence[str]:
        """The names of the part's columns, each of a type that it may have."""
        self._refuse(columns_problem(self._file.schema, self._limits))
        names: list[str] = self._file.schema.names
        return names

    def _refuse(self, problem: str | None) -> None:
        if problem is not None:
            raise self._file.lost(problem)

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids, and the versions that added them, of all lines."""
        columns = self._lines(_NUMBERS)
        ids, added = (columns[name].to_numpy() for name in _NUMBERS)
        self._refuse(numbers_problem(ids, added, self.segment))
        return ids, added

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """As the base class."""
        ids = self._numbers[0]
        return ids if self._places is None else ids[self._places]

    @cached_property
    def added(self) -> NDArray[np.int64]:
        """As the base class."""
        added = self._numbers[1]
        return added if self._places is None else added[self._places]

    @property
    def all_ids(self) -> NDArray[np.int64]:
        """Of every line of the part, whether or not it is a file still."""
        return self._numbers[0]

    def added_by(self, version: int) -> Mask:
        """As the base class; as a rule nothing is read."""
        if version >= self.segment.added:
            return np.ones(self._count, bool)
        return super().added_by(version)

    def find(self, ids: NDArray[np.int64]) -> tuple[Places, Places]:
        """As the base class."""
        first, last = self.segment.ids
        inside = np.flatnonzero((ids >= first) & (ids <= last))
        if not len(inside):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        places, lines = super().find(ids[inside])
        return places, inside[lines]

    def columns(self, names: Iterable[str]) -> pa.Table:
        """As the base class."""
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
        """As the base class; at places in any order."""
        asked = list(self.names if names is None else names)
        if len(places) * 2 > self._count or all(name in self._known for name in asked):
            return self.columns(asked).take(pa.array(places))
        return self._read_at(asked, self.lines[places])

    def _lines(self, names: Sequence[str]) -> pa.Table:
        """Columns of every line of the part, held against what the root says of them together."""
        asked = [name for name in names if name in self._columns]
        # Counts mean something beside the number of rows.
        counted = "rows" not in asked and any("." in name for name in asked)
        columns = self._checked(self._file.read([*asked, "rows"] if counted else asked))
        with self._readable():
            self._refuse(sums_problem(columns, self.segment, self._limits))
        return columns.select(asked)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Return where values of the root are read."""
        try:
            yield
        except (CorruptEntryError, pa.ArrowException, TypeError, OverflowError) as error:
            raise self._file.lost(error) from None

    def _checked(self, columns: pa.Table) -> pa.Table:
        """Columns as the log may have them, the bounds typed."""
        typed = typed_bounds(columns, self._limits.fields.values())
        self._refuse(lines_problem(typed, self.segment, self._limits))
        return typed

    def _read(self, names: Sequence[str]) -> pa.Table:
        columns = self._lines(names)
        if self._places is not None:
            columns = columns.take(pa.array(self._places)).combine_chunks()
        return typed_bounds(columns, self._later.values())

    def _read_at(self, names: Sequence[str], lines: Places) -> pa.Table:
        """Columns at some lines, from the row groups that these are in."""
        names = [name for name in names if name in self._columns]
        starts = self._file.starts
        groups, group_of = np.unique(
            np.searchsorted(starts, lines, side="right") - 1, return_inverse=True
        )
        read = self._checked(self._file.read(names, groups.tolist()))
        sizes = np.diff(starts)[groups]
        before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        at = before[group_of] + (lines - starts[groups][group_of])
        return typed_bounds(read.take(pa.array(at)).combine_chunks(), self._later.values())

    def narrowed(self, places: Places) -> FileColumns:
        """As the base class."""
        chosen = self.lines[places]
        return StoredColumns(self._file, self.segment, self._limits, chosen, self._later)

    def retyped(self, column: Field) -> FileColumns:
        """As the base class."""
        later = {**self._later, column.id: column}
        return StoredColumns(self._file, self.segment, self._limits, self._places, later)

    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """As the base class: by the root. Spec: CKP-4."""
        known = self.segment.bounds.get(str(field_id), {})
        field = self._limits.fields.get(field_id)
        if field is None or not known:
            return {}
        with self._readable():
            table = pa.table(summary_of(known, field))
        table = typed_bounds(table, [self._later[field_id]])
        return {name: table[name] for name in table.column_names if not table[name].null_count}

    @property
    def total_rows(self) -> int | None:
        """As the base class."""
        return self.segment.rows


class StoredDeletes:
    """All parts of `deletes` of a checkpoint; read together, when somebody asks for one.

    They are held against the entry's sum, for which the ids of all live files are read too: a row
    that is gone must not come back because its file has another id in the checkpoint.
    """

    def __init__(
        self, files: Sequence[PartFile], live: Sequence[FileColumns], limits: Limits
    ) -> None:
        self._files = files
        self._live = live
        self._limits = limits
        self.parts = tuple(StoredDeltas(self, at, file.part) for at, file in enumerate(files))

    @cached_property
    def columns(self) -> Sequence[pa.Table]:
        """Those of each part."""
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
    """The rows that one part of a checkpoint says are gone."""

    def __init__(self, whole: StoredDeletes, at: int, part: Part) -> None:
        self.__dict__["whole"] = whole
        self.__dict__["at"] = at
        self.__dict__["part"] = part
        self.__dict__["unions"] = {}

    def __len__(self) -> int:
        return int(self.__dict__["part"].files)

    @property
    def path(self) -> str:
        """The part's."""
        return str(self.__dict__["part"].path)

    @property
    def _columns(self) -> pa.Table:
        whole: StoredDeletes = self.__dict__["whole"]
        return whole.columns[self.__dict__["at"]]

    @cached_property
    def file(self) -> NDArray[np.int64]:
        """As the base class."""
        file: NDArray[np.int64] = self._columns["file"].to_numpy()
        return file

    @cached_property
    def version(self) -> NDArray[np.int64]:
        """As the base class."""
        version: NDArray[np.int64] = self._columns["version"].to_numpy()
        return version

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """As the base class."""
        rows: NDArray[np.int64] = self._columns["rows"].to_numpy()
        return rows

    @cached_property
    def takes(self) -> NDArray[np.bool_]:
        """As the base class."""
        return np.ones(self._columns.num_rows, bool)

    @cached_property
    def maps(self) -> pa.Table:
        """As the base class."""
        return self._columns.select(DELETE_COLUMNS.names)
