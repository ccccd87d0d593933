"""Conversion of Arrow values to another type at any depth, fields by name or by position. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.plain_values import plain_values
from tablefmt.model.arrow_types import is_list
from tablefmt.model.case_folding import folded


def relabelled(values: Any, target: pa.DataType) -> Any:
    """Return the values under the field names of `target`, whose fields have the same positions.

    Arrow's own cast matches fields by name. It would exchange the values of swapped names, and give
    NULL for new names.

    Args:
        values: an array or a chunked array.
        target: the same type except for names, nullability and metadata of fields.
    """
    if values.type == target:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([relabelled(c, target) for c in values.chunks], target)
    return converted(values, target, by_place=True)


def converted(values: pa.Array, target: pa.DataType, *, by_place: bool = False) -> pa.Array:
    """Return the values as another type, with struct fields matched by name or position at any
    depth.

    Raises:
        pa.ArrowInvalid: a value has no equal in the target type.
    """
    kind = values.type
    if kind == target and not may_hide_nulls(target):
        return values
    if pa.types.is_null(kind):
        return nulls(len(values), target)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return converted(plain_values(values), target)
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        return _converted_struct(values, target, mask, by_place)
    if pa.types.is_map(kind):
        offsets, keys, items = map_parts(values)
        keys = converted(keys, target.key_type, by_place=by_place)
        items = converted(items, target.item_type, by_place=by_place)
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=mask)
    if is_list(kind):
        # Arrow's own cast of list views loses elements after a NULL.
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        elements = converted(values.flatten(), target.value_type, by_place=by_place)
        return pa.ListArray.from_arrays(offsets, elements, target, mask=mask)
    return _converted_flat(values, target)


def _converted_struct(
    values: pa.StructArray, target: pa.StructType, mask: pa.Array | None, by_place: bool
) -> pa.StructArray:
    """Convert a struct: fields by name in any order; missing fields are NULL."""
    places = places_of_fields(values.type)
    fields = [target.field(i) for i in range(target.num_fields)]
    children = []
    for place, field in enumerate(fields):
        at = place if by_place else places.get(folded(field.name))
        if at is None:
            children.append(nulls(len(values), field.type))
        else:
            child = converted(values.field(at), field.type, by_place=by_place)
            if mask is not None and not field.nullable and child.null_count:
                child = _filled(child, mask)
            children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


@lru_cache(maxsize=256)
def may_hide_nulls(kind: pa.DataType) -> bool:
    """Return whether a type has NOT NULL fields inside.

    Spark leaves NULL in such a field of a NULL struct, and Arrow refuses to write that column.
    """
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return any(not f.nullable or may_hide_nulls(f.type) for f in fields)
    if pa.types.is_map(kind):
        return may_hide_nulls(kind.key_type) or may_hide_nulls(kind.item_type)
    return is_list(kind) and may_hide_nulls(kind.value_type)


def nulls(rows: int, shape: pa.DataType) -> pa.Array:
    """Return `rows` NULLs.

    NOT NULL fields inside get an empty value, as Parquet's writer requires.
    """
    if not may_hide_nulls(shape):
        return pa.nulls(rows, shape)
    return pa.array([None], shape).take(pa.nulls(rows, pa.int64()).fill_null(0))


def _filled(child: pa.Array, mask: pa.Array) -> pa.Array:
    """Return the values with an empty one wherever `mask` is true."""
    empty = pa.array([None], pa.struct([pa.field("x", child.type, nullable=False)])).field(0)
    places = pc.if_else(mask, len(child), pa.array(range(len(child)), pa.int64()))
    return pa.concat_arrays([child, empty]).take(places)


def _converted_flat(values: pa.Array, target: pa.DataType) -> pa.Array:
    kind = values.type
    if pa.types.is_integer(kind) and pa.types.is_decimal(target):
        # Arrow checks the range of the integer type instead of these values.
        return values.cast(pa.decimal128(38, 0)).cast(target)
    result = values.cast(target)
    narrows = pa.types.is_floating(kind) and not pa.types.is_float64(target)
    if narrows or (pa.types.is_decimal(kind) and pa.types.is_floating(target)):
        # Arrow rounds these values silently.
        same = pc.equal(result.cast(kind), values)
        if pa.types.is_floating(kind):
            same = pc.or_(same, pc.is_nan(values))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid("a value would be rounded")
    return result


def map_parts(values: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return offsets from 0, keys and items of a map array, which may be a slice."""
    offsets = values.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = (part.slice(start, end - start) for part in (values.keys, values.items))
    # Subtract even 0: Arrow accepts no slice of offsets beside a mask.
    return pc.subtract(offsets, offsets[0]), keys, items


def places_of_fields(kind: pa.StructType) -> dict[str, int]:
    """Return the positions of a struct's fields by casefolded name."""
    return {folded(kind.field(i).name): i for i in range(kind.num_fields)}
