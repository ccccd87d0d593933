"""Compatibility of data types with column types, by the types alone. Pure. Spec: SCH-5."""

from __future__ import annotations

import pyarrow as pa

from tablefmt.data.nested_values import places_of_fields
from tablefmt.model.arrow_types import arrow_type, from_arrow_field, is_list
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    Type,
    is_variant,
)

VARIANT = Struct(
    (
        Field(0, "value", "value", Primitive("binary"), nullable=False),
        Field(0, "metadata", "metadata", Primitive("binary"), nullable=False),
    )
)
"""The form of a variant in Arrow and in a data file (DAT-10)."""


_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})


def type_misfit(given: Type, column: Field) -> str | None:
    """Return why a type never fits a column, struct fields by name; None if its values may fit."""
    return arrow_misfit(arrow_type(given), column.type, column.name)


def arrow_misfit(given: pa.DataType, column_type: Type, where: str) -> str | None:
    """Return why values of one type never fit another; None if some or all values may.

    Raises:
        SchemaMismatchError: SCH-5, a type that no column can have.
    """
    if pa.types.is_null(given):
        return None
    if pa.types.is_dictionary(given) or pa.types.is_run_end_encoded(given):
        return arrow_misfit(given.value_type, column_type, where)
    if is_variant(column_type) and pa.types.is_struct(given):
        return _struct_misfit(given, VARIANT, where)
    if isinstance(column_type, Struct) and pa.types.is_struct(given):
        return _struct_misfit(given, column_type, where)
    if isinstance(column_type, Map) and pa.types.is_map(given):
        return arrow_misfit(given.key_type, column_type.key, where + ".key") or arrow_misfit(
            given.item_type, column_type.value, where + ".value"
        )
    if isinstance(column_type, Array) and is_list(given):
        return arrow_misfit(given.value_type, column_type.element, where + ".element")
    theirs = from_arrow_field(pa.field(where, given)).type
    if theirs == column_type or (_is_number(theirs) and _is_number(column_type)):
        return None
    return f"column {where!r}: the table has {column_type}, the data has {theirs}"


def _struct_misfit(given: pa.StructType, column_type: Struct, where: str) -> str | None:
    places = places_of_fields(given)
    if len(places) < given.num_fields:
        return f"column {where!r} has fields in the data whose names differ only in case"
    known = {folded(f.name) for f in column_type.fields}
    extra = [given.field(at).name for name, at in places.items() if name not in known]
    if extra:
        return f"column {where!r} has fields in the data that the table lacks: {extra}"
    for column in column_type.fields:
        at = places.get(folded(column.name))
        if at is None and not column.nullable:
            return f"field {where}.{column.name} is NOT NULL, but missing in the data"
        problem = at is not None and arrow_misfit(
            given.field(at).type, column.type, f"{where}.{column.name}"
        )
        if problem:
            return problem
    return None


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _NUMBERS)
