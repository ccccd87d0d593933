"""Conversion of Arrow values to another type at any depth, fields by name or by position. Pure.

Dictionary and run-end encoded columns are decoded to plain values. Categoricals of polars and
pandas arrive as dictionaries. Spec: SCH-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arrow_types import is_list
from tablefmt.model.name_matching import folded

PIECE_BYTES = 32 << 20
"""Approximate bytes of values decoded at once. A dictionary of one long text with many rows is
small, but its decoded values are not.
"""


@lru_cache(maxsize=256)
def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the decoded values, at any depth."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _wide(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([f.with_type(plain_type(f.type)) for f in fields])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(plain_type(key.type)), item.with_type(plain_type(item.type)))
    if is_list(kind) and plain_type(kind.value_type) != kind.value_type:
        return pa.large_list(kind.value_field.with_type(plain_type(kind.value_type)))
    return kind


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return a type with 64-bit offsets, because repeated text may exceed 2 GB."""
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def plain_values(values: pa.Array) -> pa.Array:
    """Return the same values without dictionaries and runs, at any depth.

    Raises:
        pa.ArrowInvalid, pa.ArrowIndexError: an index is outside its dictionary.
    """
    kind = values.type
    target = plain_type(kind)
    if target == kind:
        return values
    if pa.types.is_dictionary(kind):
        # Arrow cannot take from view arrays.
        return plain_values(values.dictionary).cast(target).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        runs = plain_values(values.values).cast(target)
        ends = np.asarray(values.run_ends) - values.offset
        return runs.take(pa.array(np.searchsorted(ends, np.arange(len(values)), side="right")))
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        fields = [target.field(at) for at in range(target.num_fields)]
        parts = [plain_values(values.field(at)) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        offsets, start, end = _offsets(values.offsets)
        keys, items = (
            plain_values(each.slice(start, end - start)) for each in (values.keys, values.items)
        )
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=mask)
    ends = _list_offsets(values, pa.int64())
    return pa.LargeListArray.from_arrays(ends, plain_values(values.flatten()), target, mask=mask)


def _list_offsets(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the offsets of the flattened values of any kind of list; a NULL has none."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), kind)


def _offsets(offsets: pa.Array) -> tuple[pa.Array, int, int]:
    """Return offsets from 0, and the first and the last offset.

    Beside a mask, Arrow accepts no slice of offsets, and pyarrow 24 none with a validity bitmap.
    """
    given = offsets.to_numpy()
    return pa.array(given - given[0], offsets.type), int(given[0]), int(given[-1])


def decoded(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the same rows without dictionaries and runs, decoded piece by piece.

    Raises:
        SchemaMismatchError: while it is read: an index is outside its dictionary.
    """
    fields = [field.with_type(plain_type(field.type)) for field in reader.schema]
    schema = pa.schema(fields, reader.schema.metadata)
    if schema == reader.schema:
        return reader
    return pa.RecordBatchReader.from_batches(schema, _pieces(reader, schema))


def _pieces(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for name, values in zip(schema.names, batch.columns, strict=True):
            _check_places(values, name)
        size = sum(map(_decoded_bytes, batch.columns))
        step = max(1, batch.num_rows * PIECE_BYTES // max(size, PIECE_BYTES))
        for start in range(0, batch.num_rows, step):
            part = batch if step >= batch.num_rows else batch.slice(start, step)
            yield pa.RecordBatch.from_arrays(list(map(plain_values, part.columns)), schema=schema)


def _check_places(values: pa.Array, name: str) -> None:
    """Refuse indices outside a dictionary. Arrow accepts them unchecked."""
    if plain_type(values.type) == values.type:
        return
    try:
        values.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise SchemaMismatchError(
            f"column {name!r} holds invalid Arrow data ({str(error).splitlines()[0]}). "
            "Nothing was written; repair or decode the column first.",
            [name],
        ) from None


def _decoded_bytes(values: pa.Array) -> int:
    """Return the approximate bytes of the values without dictionaries."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        if not len(values.dictionary):
            return 0
        return int(_decoded_bytes(values.dictionary) / len(values.dictionary) * len(values))
    if plain_type(kind) == kind:
        return int(values.nbytes)
    if pa.types.is_run_end_encoded(kind):
        return int(_decoded_bytes(values.values) / max(1, len(values.values)) * len(values))
    if pa.types.is_struct(kind):
        return sum(_decoded_bytes(values.field(at)) for at in range(kind.num_fields))
    parts = (values.keys, values.items) if pa.types.is_map(kind) else (values.values,)
    return sum(map(_decoded_bytes, parts))


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
        offsets = _list_offsets(values, pa.int32())
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
    offsets, start, end = _offsets(values.offsets)
    keys, items = (part.slice(start, end - start) for part in (values.keys, values.items))
    return offsets, keys, items


def places_of_fields(kind: pa.StructType) -> dict[str, int]:
    """Return the positions of a struct's fields by casefolded name."""
    return {folded(kind.field(i).name): i for i in range(kind.num_fields)}
