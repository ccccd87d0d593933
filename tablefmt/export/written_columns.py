"""Columns that data files have, by the metadata version that each file was written under (ADD-9).

The log says them, unless its entry of that version has expired. Then one file's footer says them.
The first entry of a clone (CLN-1) adds files that were written under earlier metadata of another
table. So each of their footers is read.
An imported file may lack any column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.file_checksum import read_ends
from tablefmt.errors import CorruptTableError, SchemaMismatchError, VersionNotFoundError
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.arrow_types import FIELD_ID, from_arrow_field
from tablefmt.model.import_layouts import NUMBER
from tablefmt.model.schema import Type, id_types
from tablefmt.model.type_widening import is_widening
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Store

Types = Mapping[int, Type]
"""Types by the id of the field, element, key or value."""

GROUP_FILES = 256
"""Footers in memory at once."""


@dataclass(slots=True)
class WrittenColumns:
    """Columns of data files, with a cache of the answers."""

    _known: dict[tuple[str, int], Types] = field(default_factory=dict)
    _of_files: dict[str, Types] = field(default_factory=dict)
    """Columns of files that a first entry added, by path."""

    def of(self, view: LogView, snapshot: Snapshot) -> list[Types]:
        """Return the columns of a snapshot's files, for each schema that they were written under,
        the oldest first."""
        files = snapshot.files_with({"written"})
        if not files.num_rows:
            return []
        written, added = (files[name].to_numpy() for name in ("written", "added"))
        eras = []
        for version in np.unique(written).tolist():
            if _begins_table(view, version) and np.any((written == version) & (added == version)):
                eras += self._copied(view.store, snapshot, version)
            else:
                eras.append(self._types(view, snapshot, version))
        return eras

    def _copied(self, store: Store, snapshot: Snapshot, version: int) -> list[Types]:
        """Return the columns of files that a table's first entry added, by their footers."""
        files = snapshot.files_with({"written", "path", "size"})
        files = files.filter(pc.equal(files["written"], version))
        pairs = list(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))
        unknown = [pair for pair in pairs if pair[0] not in self._of_files]
        for start in range(0, len(unknown), GROUP_FILES):
            group = unknown[start : start + GROUP_FILES]
            for (path, _), types in zip(group, _footers(store, group), strict=True):
                self._of_files[path] = types
        distinct: list[Types] = []
        for path, _ in pairs:
            if self._of_files[path] not in distinct:
                distinct.append(self._of_files[path])
        return sorted(distinct, key=cmp_to_key(_order))

    def _types(self, view: LogView, snapshot: Snapshot, version: int) -> Types:
        key = (snapshot.table_id, version)
        if key not in self._known:
            self._known[key] = self._found(view, snapshot, version)
        return self._known[key]

    def _found(self, view: LogView, snapshot: Snapshot, version: int) -> Types:
        try:
            return id_types(view.metadata_at(version).schema)
        except (CorruptTableError, VersionNotFoundError):
            files = snapshot.files_with({"written", "path", "size"})
            at = int(np.flatnonzero(files["written"].to_numpy() == version)[0])
            pair = (files["path"][at].as_py(), files["size"][at].as_py())
            return next(_footers(view.store, [pair]))


def _begins_table(view: LogView, version: int) -> bool:
    """Return whether the entry of a version is the first of its table (ENT-14)."""
    try:
        return version == 0 or view.totals_at(version).oldest == version
    except (CorruptTableError, VersionNotFoundError):
        # Its entry has expired, so the footers decide.
        return True


def _order(one: Types, other: Types) -> int:
    """Order the columns of files by age: types become wider, and columns are added."""
    for place in one.keys() & other.keys():
        if is_widening(one[place], other[place]):
            return -1
        if is_widening(other[place], one[place]):
            return 1
    return len(one) - len(other)


def _footers(store: Store, files: Sequence[tuple[str, int]]) -> Iterator[Types]:
    """Yield the columns of files by their footers, at most `GROUP_FILES` of them."""
    for (path, _), end in zip(files, read_ends(store, files), strict=True):
        if end is None:
            raise CorruptTableError("it is missing", key=path, rule="DAT-5")
        types: dict[int, Type] = {}
        for column in footer_of(end.body).schema.to_arrow_schema():
            _enter(column, types)
        yield types


def _enter(column: pa.Field, types: dict[int, Type]) -> None:
    place = (column.metadata or {}).get(FIELD_ID)
    if place is not None:
        try:
            types[int(place)] = from_arrow_field(column).type
        except SchemaMismatchError:
            return
    for at in range(column.type.num_fields):
        _enter(column.type.field(at), types)


def live_imports(view: LogView, version: int) -> dict[int, str]:
    """Return the imports of the live files of a version, each with the path of a file."""
    if not view.metadata_at(version).imports:
        return {}
    files = view.snapshot(version).files_with({"path", NUMBER})
    if NUMBER not in files.column_names:
        return {}
    files = files.filter(pc.is_valid(files[NUMBER])).combine_chunks()
    firsts = files.group_by(NUMBER).aggregate([("path", "min")])
    return dict(zip(firsts[NUMBER].to_pylist(), firsts["path_min"].to_pylist(), strict=True))
