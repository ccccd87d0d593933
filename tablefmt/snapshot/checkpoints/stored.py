"""The files of a checkpoint, read as they are asked for: columns, and rows that were taken out.

Spec: CKP-3, CKP-4, CKP-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.log.columns import no_columns
from tablefmt.model.cached import cached_property
from tablefmt.model.positions import DELETE_COLUMNS
from tablefmt.model.schema import Field
from tablefmt.model.values import decode
from tablefmt.snapshot.checkpoints.parts import PartFile
from tablefmt.snapshot.checkpoints.root import SegmentPart
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
        fields: Mapping[int, Field],
        places: Places | None = None,
        later: Mapping[int, Field] | None = None,
    ) -> None:
        """The lines of a part that are files.

        Args:
            file: the part.
            segment: what the root says of it.
            fields: by id, the columns of the checkpoint.
            places: the lines, ascending; by default those that are not gone.
            later: columns in whose types bounds and partition values are given, if others.
        """
        self.segment = segment
        self._file = file
        self._fields = fields
        self._later = fields if later is None else later
        if places is None and segment.gone is not None:
            stays = np.ones(segment.files, bool)
            stays[np.asarray(segment.gone.to_array(), np.int64)] = False
            places = np.flatnonzero(stays)
        self._places = places
        self._count = segment.files if places is None else len(places)
        self._known: dict[str, pa.ChunkedArray] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def path(self) -> str:
        """The part's."""
        return self._file.part.path

    @cached_property
    def lines(self) -> Places:
        """The line of each file in the part."""
        return np.arange(self._count) if self._places is None else self._places

    @cached_property
    def names(self) -> Sequence[str]:
        """As the base class."""
        return [name for name in self._file.names if name not in _NUMBERS]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """As the base class."""
        return self._numbers("id")

    @cached_property
    def added(self) -> NDArray[np.int64]:
        """As the base class."""
        return self._numbers("added")

    @cached_property
    def all_ids(self) -> NDArray[np.int64]:
        """Of every line of the part, whether or not it is a file still."""
        whole = (
            self
            if self._places is None
            else StoredColumns(
                self._file, self.segment, self._fields, np.arange(self.segment.files)
            )
        )
        return whole.ids

    def _numbers(self, name: str) -> NDArray[np.int64]:
        columns = self._read([name])
        if columns.column_names != [name] or columns[name].null_count:
            raise self._file.lost(f"it lacks {name!r}")
        numbers: NDArray[np.int64] = columns[name].to_numpy()
        return numbers

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
        asked = [name for name in names if name in set(self._file.names)]
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

    def _read(self, names: Sequence[str]) -> pa.Table:
        if self._places is None:
            return self._typed(self._file.read(names))
        return self._read_at(names, self._places)

    def _read_at(self, names: Sequence[str], lines: Places) -> pa.Table:
        """Columns at some lines, from the row groups that these are in."""
        starts = self._file.starts
        groups, group_of = np.unique(
            np.searchsorted(starts, lines, side="right") - 1, return_inverse=True
        )
        read = self._file.read(names, groups.tolist())
        sizes = np.diff(starts)[groups]
        before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        at = before[group_of] + (lines - starts[groups][group_of])
        return self._typed(read.take(pa.array(at)).combine_chunks())

    def _typed(self, columns: pa.Table) -> pa.Table:
        if no_columns([name for name in columns.column_names if name not in _NUMBERS]):
            raise self._file.lost("it has columns that files cannot have")
        return typed_bounds(columns, self._later.values())

    def narrowed(self, places: Places) -> FileColumns:
        """As the base class."""
        chosen = self.lines[places]
        return StoredColumns(self._file, self.segment, self._fields, chosen, self._later)

    def retyped(self, column: Field) -> FileColumns:
        """As the base class."""
        later = {**self._later, column.id: column}
        return StoredColumns(self._file, self.segment, self._fields, self._places, later)

    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """As the base class: by the root. Spec: CKP-4."""
        known = self.segment.bounds.get(str(field_id), {})
        field = self._fields.get(field_id)
        if field is None or not known:
            return {}
        table = pa.table(summary_of(known, field, self._file))
        table = typed_bounds(table, [self._later[field_id]])
        return {name: table[name] for name in table.column_names if not table[name].null_count}

    @property
    def total_rows(self) -> int | None:
        """As the base class."""
        return self.segment.rows


def summary_of(known: Mapping[str, Any], field: Field, file: PartFile) -> dict[str, Any]:
    """What a root says of a column, as Arrow arrays of one element.

    Raises:
        LostCheckpointError: values that are none of the column's type.
    """
    try:
        arrays = {
            f"{side}.{field.id}": decode([known[side]], field.type)
            for side in ("lower", "upper")
            if known.get(side) is not None
        }
        counts = {
            f"{name}.{field.id}": pa.array([known[name]], pa.int64())
            for name in ("nulls", "nans")
            if known.get(name) is not None
        }
    except (CorruptEntryError, pa.ArrowException) as error:
        raise file.lost(error) from None
    return arrays | counts


class StoredDeltas(Deltas):
    """The rows that a checkpoint says are gone; read when somebody asks for one."""

    def __init__(self, file: PartFile) -> None:
        self.__dict__["part"] = file
        self.__dict__["unions"] = {}

    def __len__(self) -> int:
        return int(self.__dict__["part"].part.files)

    @property
    def path(self) -> str:
        """The part's."""
        return str(self.__dict__["part"].part.path)

    @cached_property
    def _columns(self) -> pa.Table:
        file: PartFile = self.__dict__["part"]
        columns = file.read([*DELETE_COLUMNS.names, "version"])
        try:
            typed = columns.select([*DELETE_COLUMNS.names, "version"])
            maps = typed.drop_columns(["version"]).cast(DELETE_COLUMNS)
        except (pa.ArrowException, KeyError) as error:
            raise file.lost(error) from None
        return maps.append_column("version", typed["version"])

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
        return np.ones(len(self), bool)

    @cached_property
    def maps(self) -> pa.Table:
        """As the base class."""
        return self._columns.select(DELETE_COLUMNS.names)
