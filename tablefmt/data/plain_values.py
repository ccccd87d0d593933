"""Decoding of dictionary and run-end encoded columns to plain values. Pure.

Categoricals of polars and pandas arrive as dictionaries. Spec: SCH-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arrow_types import is_list

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
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(ends, plain_values(values.flatten()), target, mask=mask)


def _offsets(offsets: pa.Array) -> tuple[pa.Array, int, int]:
    return pc.subtract(offsets, offsets[0]), offsets[0].as_py(), offsets[-1].as_py()


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
