"""Ways in which a reader of Iceberg finds the columns of an imported file. Pure.

Such a reader uses field ids if a file has any, and else by the table's mapping of names. It
takes a partition value from the file if the file has the column. Spec: IMP-8, XPT-29.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.export.iceberg_schema import is_promotion
from tablefmt.imports.source_columns import unused_names
from tablefmt.model.arrow_types import FIELD_ID, from_arrow_field, is_list
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type, id_types, is_float

Lookup: TypeAlias = Literal["ids", "names"] | None
"""None: a reader would find other columns, other types or none."""

_Names = Mapping[int, "str | None"]


def column_lookup(
    schema: Schema, columns: pa.Schema, names: _Names, known: Mapping[int, Sequence[str]]
) -> Lookup:
    """Return how a reader of Iceberg finds the columns of a file.

    Args:
        schema: of the table.
        columns: of the file, in the types that the file has.
        names: names in the file by field id, where they differ from the physical ones.
        known: names by field id that files of the source have.
    """
    having = [FIELD_ID in (field.metadata or {}) for field in _all_fields(list(columns))]
    if any(having) and not all(having):
        return None
    pairs = list(_pairs(schema.fields, list(columns), names))
    if not all(_is_readable(kind, field) for kind, field, _ in pairs):
        return None
    if not any(having):
        unused = set(unused_names(schema, columns, names))
        known_names = {name for several in known.values() for name in several}
        clear = None not in names.values() and unused.isdisjoint(known_names)
        return "names" if clear else None
    same = all(_id(field) == field_id for _, field, field_id in pairs)
    others = Counter(map(_id, _all_fields(list(columns))))
    others.subtract(field_id for _, _, field_id in pairs)
    taken = id_types(schema).keys()
    # A new column of the table may get any higher id.
    former = all(0 < i <= schema.last_id and i not in taken for i in +others)
    return "ids" if same and former else None


def holds_only(value: Any, bounds: Mapping[str, Any], field: Field, rows: int) -> bool:
    """Return True if a file's column is known to hold one value alone.

    Args:
        value: the value as the log has it (VAL-1).
        bounds: of the file, as `file_bounds` returns them.
        field: the column.
        rows: number of rows in the file.
    """
    nulls = bounds.get(f"nulls.{field.id}")
    if value is None:
        return bool(nulls == rows)
    ends = (bounds.get(f"lower.{field.id}"), bounds.get(f"upper.{field.id}"))
    # Footers ignore NaN, so a float may hold it beside the bounds.
    return nulls == 0 and ends == (value, value) and not is_float(field.type)


def _id(field: pa.Field) -> int:
    try:
        return int((field.metadata or {}).get(FIELD_ID, b"-1"))
    except ValueError:
        return -1


def _is_readable(kind: Type, field: pa.Field) -> bool:
    """Return True if readers of Iceberg read a column of a file as a type of the table."""
    if isinstance(kind, Struct):
        return bool(pa.types.is_struct(field.type))
    if isinstance(kind, Array):
        return is_list(field.type)
    if isinstance(kind, Map):
        return bool(pa.types.is_map(field.type))
    if str(kind) == "variant" or "[ns" in str(field.type):
        # PyIceberg reads INT96 as nanoseconds, and years after 2262 as others.
        return False
    try:
        return is_promotion(from_arrow_field(field).type, kind)
    except SchemaMismatchError:
        return False


def _pairs(
    ours: Sequence[Field], theirs: Sequence[pa.Field], names: _Names
) -> Iterator[tuple[Type, pa.Field, int]]:
    """Yield the type in the table, the field in the file and the id of each column in both, with
    elements, keys and values.
    """
    given = {f.name: f for f in theirs}
    for field in ours:
        column = given.get(names.get(field.id, field.physical) or "")
        if column is not None:
            yield from _pairs_of(field.type, column, field.id, names)


def _pairs_of(
    kind: Type, column: pa.Field, field_id: int, names: _Names
) -> Iterator[tuple[Type, pa.Field, int]]:
    yield kind, column, field_id
    held = column.type
    if isinstance(kind, Struct) and pa.types.is_struct(held):
        yield from _pairs(kind.fields, list(held), names)
    elif isinstance(kind, Array) and is_list(held):
        yield from _pairs_of(kind.element, held.value_field, kind.element_id, names)
    elif isinstance(kind, Map) and pa.types.is_map(held):
        yield from _pairs_of(kind.key, held.key_field, kind.key_id, names)
        yield from _pairs_of(kind.value, held.item_field, kind.value_id, names)


def _all_fields(fields: Sequence[pa.Field]) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        kind = field.type
        if pa.types.is_map(kind):
            yield from _all_fields([kind.key_field, kind.item_field])
        else:
            yield from _all_fields([kind.field(at) for at in range(kind.num_fields)])
