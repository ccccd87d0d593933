"""Struct overlays for MERGE with a source that lacks fields. Pure. Spec: MRG-1."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.cast import cast_column
from tablefmt.data.nested_nulls import check_nested_nulls
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Field, Struct


def overlaid(values: pa.ChunkedArray, old: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return the given fields, and the old values of missing fields, at any depth.

    A NULL value gives NULL, unless its type lacks fields of the column and the old struct is not
    NULL.

    Args:
        values: structs of a type that may lack fields of the column.
        old: the old values, in the column's type.
        column: the table's column.

    Raises:
        SchemaMismatchError: SCH-5, a value does not fit.
        ConstraintViolationError: DAT-3, NULL in a NOT NULL field.
    """
    assert isinstance(column.type, Struct)
    merged = _overlaid(values.combine_chunks(), old.combine_chunks(), column.type)
    whole = cast_column(pa.chunked_array([merged]), column)
    check_nested_nulls(whole, column.type, column.name)
    return whole


def _overlaid(values: pa.Array, old: pa.Array, kind: Struct) -> pa.StructArray:
    field_places = _places(values.type)
    is_null = values.is_null()
    if _lacks(values.type, kind):
        is_null = pc.and_(is_null, old.is_null())
    children = []
    for place, column in enumerate(kind.fields):
        # The field is NULL wherever the struct is, whatever its storage holds.
        child = pc.struct_field(old, [place])
        at = field_places.get(folded(column.name))
        if at is not None:
            given = pc.struct_field(values, [at])
            if isinstance(column.type, Struct) and pa.types.is_struct(given.type):
                child = _overlaid(given, child, column.type)
            else:
                child = given
        children.append(child)
    fields = [
        pa.field(column.name, child.type)
        for column, child in zip(kind.fields, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=is_null)


def _lacks(given: pa.StructType, target: Struct) -> bool:
    """Return whether the type lacks a field of the column, at any depth of structs."""
    field_places = _places(given)
    for column in target.fields:
        at = field_places.get(folded(column.name))
        if at is None:
            return True
        inner, kind = given.field(at).type, column.type
        if isinstance(kind, Struct) and pa.types.is_struct(inner) and _lacks(inner, kind):
            return True
    return False


def _places(kind: pa.StructType) -> dict[str, int]:
    return {folded(kind.field(at).name): at for at in range(kind.num_fields)}
