"""Data as given, brought to exactly the columns and types of a table, or refused by name. Pure.

Spec: SCH-5 (types), DAT-2 (columns by name), DAT-3 (NOT NULL).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.text_lengths import fit_length
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type, from_arrow_field, is_list
from tablefmt.model.defaults import default_array
from tablefmt.model.match_names import match_names
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    is_nested,
    is_variant,
    number_fields,
)

_VARIANT = Struct(
    (
        Field(0, "value", "value", Primitive("binary"), nullable=False),
        Field(0, "metadata", "metadata", Primitive("binary"), nullable=False),
    )
)
"""What a variant is in Arrow, and in a data file (DAT-10)."""

_VARIANT_VERSION = 1
"""The low four bits of the first byte of its metadata."""

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})


def as_reader(data: Any) -> pa.RecordBatchReader:
    """Anything tabular as a stream of batches; it can be read once.

    Takes what has `__arrow_c_stream__` (pyarrow, polars, pandas >= 3, …), one record batch, and
    pandas frames (the index is left out).

    Raises:
        SchemaMismatchError: it is none of these.
    """
    try:
        return _reader_of(data)
    except (pa.ArrowException, ValueError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise SchemaMismatchError(
            f"the {type(data).__name__} cannot be read as a table: {first}"
        ) from None


def _reader_of(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    raise SchemaMismatchError(
        f"{type(data).__name__} is not tabular data; pass a pyarrow Table or reader, a polars or "
        "pandas frame, or anything with __arrow_c_stream__"
    )


@lru_cache(maxsize=64)
def match_columns(given: pa.Schema, schema: Schema) -> tuple[int | None, ...]:
    """For every column of the table the position of its data; None where it is not given.

    Raises:
        SchemaMismatchError: as `match_names`; SCH-5, a type that does not fit.
    """
    found = match_names(given.names, schema)
    for column, place in zip(schema.fields, found, strict=True):
        if place is not None:
            _check_type(column, given.field(place).type)
    return tuple(found)


def _check_type(column: Field, given: pa.DataType) -> None:
    if given == arrow_type(column.type):
        return
    problem = _misfit(given, column.type, column.name)
    if problem:
        raise SchemaMismatchError(f"{problem}; cast the data first", [column.name])


def _misfit(given: pa.DataType, wanted: Type, where: str) -> str | None:
    """Why values of one type never fit another; None if they do, or do value by value.

    Raises:
        SchemaMismatchError: SCH-5, a type that no column has.
    """
    if pa.types.is_null(given):
        return None
    if pa.types.is_dictionary(given) or pa.types.is_run_end_encoded(given):
        return _misfit(given.value_type, wanted, where)
    if is_variant(wanted) and pa.types.is_struct(given):
        return _misfit_struct(given, _VARIANT, where)
    if isinstance(wanted, Struct) and pa.types.is_struct(given):
        return _misfit_struct(given, wanted, where)
    if isinstance(wanted, Map) and pa.types.is_map(given):
        return _misfit(given.key_type, wanted.key, where + ".key") or _misfit(
            given.item_type, wanted.value, where + ".value"
        )
    if isinstance(wanted, Array) and is_list(given):
        return _misfit(given.value_type, wanted.element, where + ".element")
    theirs = from_arrow_field(pa.field(where, given)).type
    if theirs == wanted or (_is_number(theirs) and _is_number(wanted)):
        return None
    return f"column {where!r} is {wanted} in the table and {theirs} in the data"


def _misfit_struct(given: pa.StructType, wanted: Struct, where: str) -> str | None:
    found = _fields_of(given)
    if len(found) < given.num_fields:
        return f"column {where!r} has fields in the data that are the same but for case"
    known = {f.name.casefold() for f in wanted.fields}
    extra = [given.field(at).name for name, at in found.items() if name not in known]
    if extra:
        return f"column {where!r} has fields in the data that the table lacks: {extra}"
    for column in wanted.fields:
        at = found.get(column.name.casefold())
        if at is None and not column.nullable:
            return f"field {where}.{column.name} is NOT NULL and missing in the data"
        problem = at is not None and _misfit(
            given.field(at).type, column.type, f"{where}.{column.name}"
        )
        if problem:
            return problem
    return None


def _fields_of(kind: pa.StructType) -> dict[str, int]:
    """Places of a struct's fields by their names, case ignored."""
    return {kind.field(i).name.casefold(): i for i in range(kind.num_fields)}


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _NUMBERS)


def cast_to_schema(
    batch: pa.Table, positions: Sequence[int | None], schema: Schema, shape: pa.Schema
) -> pa.Table:
    """The rows with exactly the table's columns and types, as data files have them.

    Args:
        batch: rows as given.
        positions: as of `match_columns`.
        schema: the table's.
        shape: `file_schema(schema)`.

    Raises:
        SchemaMismatchError: SCH-5, a value that does not fit its column, or text that is not UTF-8;
            SCH-6, bytes that are no variant.
        ConstraintViolationError: DAT-3, NULL in a NOT NULL column; DAT-14, text that is too long.
    """
    arrays = []
    for column, at, field in zip(schema.fields, positions, shape, strict=True):
        target = arrow_type(column.type)
        if at is None:
            arrays.append(absent(column, field.type, batch.num_rows))
            continue
        _check_sound(batch.column(at), column.name)
        values = fit_length(_cast(batch.column(at), target, column.name), column)
        if not column.nullable and values.null_count:
            raise ConstraintViolationError(
                f"column {column.name!r} is NOT NULL, and {values.null_count} of "
                f"{batch.num_rows} rows are NULL there; nothing was written"
            )
        if is_nested(column.type):
            check_nested_nulls(values, column.type, column.name)
            # Fields within carry their ids and physical names.
            values = relabelled(values, field.type)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=shape)


def _check_sound(values: pa.ChunkedArray, name: str) -> None:
    """Refuse text that is not UTF-8, and places outside of a dictionary: Arrow takes both unseen,
    and nobody could read them back.
    """
    if pa.types.is_primitive(values.type):
        return
    try:
        values.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise SchemaMismatchError(
            f"column {name!r} is not sound Arrow data ({str(error).splitlines()[0]}); mend or "
            "decode it first; nothing was written",
            [name],
        ) from None


def absent(column: Field, shape: pa.DataType, rows: int) -> pa.Array:
    """A column that was not given: its default (SCH-7)."""
    if column.default is None:
        return nulls(rows, shape)
    return pa.repeat(default_array(column.default, column.type)[0], rows)


def incoming_schema(given: pa.Schema, schema: Schema) -> Schema:
    """The columns of rows that are to be written, as far as the table may take them over.

    Those that the table has under a type which no column can have are left out: they are cast, or
    refused, when the rows are written.

    Args:
        given: of the rows.
        schema: the table's.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has a name or a type that none can have.
    """
    columns = []
    for field in given:
        known = schema.find(field.name) is not None
        kind = _known_parts(field.type) if known else field.type
        try:
            if kind is not None:
                columns.append(from_arrow_field(field.with_type(kind)))
        except SchemaMismatchError:
            if not known:
                raise
    return number_fields(columns) if columns else schema


def _known_parts(kind: pa.DataType) -> pa.DataType | None:
    """The type without what is NULL in every row, and so of no type; None if nothing is left."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        parts = [(f, _known_parts(f.type)) for f in fields]
        left = [f.with_type(part) for f, part in parts if part is not None]
        return pa.struct(left) if left else None
    if is_list(kind):
        element = _known_parts(kind.value_type)
        return None if element is None else pa.list_(kind.value_field.with_type(element))
    return kind


def misfit(given: Type, column: Field) -> str | None:
    """Why values of a type never fit a column, fields of structs by name; None if they may."""
    return _misfit(arrow_type(given), column.type, column.name)


def fitted(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """The values as the column has them.

    Raises:
        SchemaMismatchError: SCH-5, one does not fit.
    """
    return _cast(values, arrow_type(column.type), column.name)


def relabelled(values: Any, target: pa.DataType) -> Any:
    """The same values under the field names of `target`, whose fields have the same places.

    Arrow's own cast looks fields up by their names: those that have exchanged them would exchange
    their values, and those with new ones become NULL.

    Args:
        values: an array or a chunked array.
        target: its type, but for names, nullability and metadata of fields.
    """
    if values.type == target:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([relabelled(c, target) for c in values.chunks], target)
    return _converted(values, target, by_place=True)


def _cast(values: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    if values.type == target and not _may_hide_nulls(target):
        return values
    try:
        return pa.chunked_array([_converted(c, target) for c in values.chunks], target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(
            f"column {name!r}: a value of type {values.type} does not fit {target} without loss "
            f"({str(error).splitlines()[0]}); nothing was written",
            [name],
        ) from None


def _converted(values: pa.Array, target: pa.DataType, *, by_place: bool = False) -> pa.Array:
    """The same values as another type, fields of structs by name, or by place, at any depth.

    Raises:
        pa.ArrowInvalid: one of them has no equal there.
    """
    kind = values.type
    if kind == target and not _may_hide_nulls(target):
        return values
    if pa.types.is_null(kind):
        return nulls(len(values), target)
    if pa.types.is_dictionary(kind):
        return _converted(values.dictionary_decode(), target)
    if pa.types.is_run_end_encoded(kind):
        return _converted(pc.run_end_decode(values), target)
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        return _converted_struct(values, target, mask, by_place)
    if pa.types.is_map(kind):
        offsets, keys, items = _map_parts(values)
        keys = _converted(keys, target.key_type, by_place=by_place)
        items = _converted(items, target.item_type, by_place=by_place)
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=mask)
    if is_list(kind):
        # Arrow's own cast of list views loses elements after a NULL.
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        elements = _converted(values.flatten(), target.value_type, by_place=by_place)
        return pa.ListArray.from_arrays(offsets, elements, target, mask=mask)
    return _converted_flat(values, target)


def _converted_struct(
    values: pa.StructArray, target: pa.StructType, mask: pa.Array | None, by_place: bool
) -> pa.StructArray:
    """Fields by name, whatever their order; missing ones are NULL."""
    found = _fields_of(values.type)
    fields = [target.field(i) for i in range(target.num_fields)]
    children = []
    for place, wanted in enumerate(fields):
        at = place if by_place else found.get(wanted.name.casefold())
        if at is None:
            children.append(nulls(len(values), wanted.type))
        else:
            child = _converted(values.field(at), wanted.type, by_place=by_place)
            if mask is not None and not wanted.nullable and child.null_count:
                child = _filled(child, mask)
            children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


@lru_cache(maxsize=256)
def _may_hide_nulls(kind: pa.DataType) -> bool:
    """Whether there are fields within that are NOT NULL: Spark leaves NULL there in structs that
    are NULL themselves, and Arrow writes no such column.
    """
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return any(not f.nullable or _may_hide_nulls(f.type) for f in fields)
    if pa.types.is_map(kind):
        return _may_hide_nulls(kind.key_type) or _may_hide_nulls(kind.item_type)
    return is_list(kind) and _may_hide_nulls(kind.value_type)


def nulls(rows: int, shape: pa.DataType) -> pa.Array:
    """So many NULLs. What is NOT NULL inside has an empty value: else Parquet's writer refuses."""
    if not _may_hide_nulls(shape):
        return pa.nulls(rows, shape)
    return pa.array([None], shape).take(pa.nulls(rows, pa.int64()).fill_null(0))


def _filled(child: pa.Array, mask: pa.Array) -> pa.Array:
    """The values with an empty one wherever `mask` is true."""
    empty = pa.array([None], pa.struct([pa.field("x", child.type, nullable=False)])).field(0)
    places = pc.if_else(mask, len(child), pa.array(range(len(child)), pa.int64()))
    return pa.concat_arrays([child, empty]).take(places)


def _converted_flat(values: pa.Array, target: pa.DataType) -> pa.Array:
    kind = values.type
    if pa.types.is_integer(kind) and pa.types.is_decimal(target):
        # Arrow asks for room for every integer of the type; what counts is these.
        return values.cast(pa.decimal128(38, 0)).cast(target)
    result = values.cast(target)
    narrows = pa.types.is_floating(kind) and not pa.types.is_float64(target)
    if narrows or (pa.types.is_decimal(kind) and pa.types.is_floating(target)):
        # Arrow rounds these without a word.
        same = pc.equal(result.cast(kind), values)
        if pa.types.is_floating(kind):
            same = pc.or_(same, pc.is_nan(values))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid("a value would be rounded")
    return result


def _map_parts(values: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Offsets from 0, keys and items of a map array, slices too."""
    offsets = values.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    keys, items = (part.slice(start, end - start) for part in (values.keys, values.items))
    # Computed even from 0: Arrow takes no slice of offsets beside a mask.
    return pc.subtract(offsets, offsets[0]), keys, items


def check_nested_nulls(values: Any, kind: Type, name: str) -> None:
    """DAT-3 inside structs, lists and maps; SCH-6."""
    if is_variant(kind):
        check_nested_nulls(values, _VARIANT, name)
        _check_variants(values, name)
    elif isinstance(kind, Struct):
        for column in kind.fields:
            # By place: Arrow takes a name that begins with a dot for a path.
            inner = pc.struct_field(values, [values.type.get_field_index(column.name)])
            present = pc.is_valid(values)
            if not column.nullable and pc.sum(pc.and_(pc.is_null(inner), present)).as_py():
                raise ConstraintViolationError(
                    f"field {name}.{column.name} is NOT NULL and NULL in the data; nothing was "
                    "written"
                )
            check_nested_nulls(inner, column.type, f"{name}.{column.name}")
    elif isinstance(kind, Array):
        inner = pc.list_flatten(values)
        _check_elements(inner, kind.nullable, f"elements of {name}")
        check_nested_nulls(inner, kind.element, f"{name}.element")
    elif isinstance(kind, Map):
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            _, keys, items = _map_parts(chunk)
            _check_elements(items, kind.nullable, f"values of {name}")
            check_nested_nulls(keys, kind.key, f"{name}.key")
            check_nested_nulls(items, kind.value, f"{name}.value")


def _check_variants(values: Any, name: str) -> None:
    """Raises SchemaMismatchError if a value or its metadata cannot be one, going by their heads."""
    present = values.filter(pc.is_valid(values))
    heads = pc.binary_slice(pc.struct_field(present, "metadata"), 0, 1)
    versions = {head[0] & 0x0F if head else None for head in pc.unique(heads).to_pylist()}
    shortest = pc.min(pc.binary_length(pc.struct_field(present, "value"))).as_py()
    if versions - {_VARIANT_VERSION} or shortest == 0:
        raise SchemaMismatchError(
            f"column {name!r}: the bytes of a value are no VARIANT; make them by parse_json or "
            "to_variant_object in Spark, or read them from a VARIANT column",
            [name],
        )


def _check_elements(inner: Any, nullable: bool, what: str) -> None:
    if not nullable and inner.null_count:
        raise ConstraintViolationError(
            f"{what} are NOT NULL and NULL in the data; nothing was written"
        )
