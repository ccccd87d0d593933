"""Columns that data files have, by the metadata version that each file was written under (ADD-9).

The log says them, unless its entry of that version has expired. Then one file's footer says them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablefmt.data.file_checksum import read_ends
from tablefmt.errors import CorruptTableError, SchemaMismatchError, VersionNotFoundError
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.arrow_types import FIELD_ID, from_arrow_field
from tablefmt.model.schema import Type, id_types
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot

Types = Mapping[int, Type]
"""Types by the id of the field, element, key or value."""


@dataclass(slots=True)
class WrittenColumns:
    """Columns of data files, with a cache of the answers."""

    _known: dict[tuple[str, int], Types] = field(default_factory=dict)

    def of(self, view: LogView, snapshot: Snapshot) -> dict[int, Types]:
        """Return the columns of a snapshot's files, by metadata version."""
        files = snapshot.files_with({"written"})
        if not files.num_rows:
            return {}
        written = files["written"].to_numpy()
        return {
            int(version): self._types(view, snapshot, int(version))
            for version in np.unique(written)
        }

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
            return _of_footer(view, files["path"][at].as_py(), files["size"][at].as_py())


def _of_footer(view: LogView, path: str, size: int) -> Types:
    (end,) = read_ends(view.store, [(path, size)])
    if end is None:
        raise CorruptTableError("it is missing", key=path, rule="DAT-5")
    types: dict[int, Type] = {}
    for column in footer_of(end.body).schema.to_arrow_schema():
        _enter(column, types)
    return types


def _enter(column: pa.Field, types: dict[int, Type]) -> None:
    place = (column.metadata or {}).get(FIELD_ID)
    if place is not None:
        try:
            types[int(place)] = from_arrow_field(column).type
        except SchemaMismatchError:
            return
    for at in range(column.type.num_fields):
        _enter(column.type.field(at), types)
