"""Ids of list elements, map keys and map values in data files, which Iceberg's readers need.

Some engines write none, and the log does not say so (DAT-1). So the footers of new files are read,
one for each folder: the files of a transaction come from one engine. Spec: XPT-23.
"""

from __future__ import annotations

import pyarrow as pa

from tablefmt.data.file_checksum import read_ends
from tablefmt.errors import CorruptTableError
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.arrow_types import FIELD_ID
from tablefmt.store.object_store import Store


def file_without_ids(store: Store, files: pa.Table) -> str:
    """Return the path of a file that has a list or a map without ids inside; "" for none.

    Args:
        store: the table's root.
        files: with `path` and `size`.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    chosen: dict[str, tuple[str, int]] = {}
    for path, size in zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True):
        chosen.setdefault(path.rpartition("/")[0], (path, size))
    ends = read_ends(store, list(chosen.values()))
    for (path, _), end in zip(chosen.values(), ends, strict=True):
        if end is None:
            raise CorruptTableError("it is missing", key=path, rule="DAT-5")
        if any(lacks_ids(column.type) for column in footer_of(end.body).schema.to_arrow_schema()):
            return path
    return ""


def lacks_ids(kind: pa.DataType) -> bool:
    """Return True if a list or a map in a type has no field id for its elements."""
    inside = [kind.field(at) for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    if not pa.types.is_struct(kind) and any(FIELD_ID not in (f.metadata or {}) for f in inside):
        return True
    return any(lacks_ids(field.type) for field in inside)
