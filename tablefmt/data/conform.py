"""Data as given, brought to exactly the columns and types of a table, or refused by name. Pure.

Spec: SCH-5 (types), DAT-2 (columns by name), DAT-3 (NOT NULL).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type, from_arrow
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Schema, Struct, Type

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})


def as_reader(data: Any) -> pa.RecordBatchReader:
    """Anything tabular as a stream of batches; it can be read once.

    Takes what has `__arrow_c_stream__` (pyarrow, polars, pandas >= 3, …), one record batch, and
    pandas frames (the index is left out).

    Raises:
        SchemaMismatchError: it is none of these.
    """
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


def match_columns(given: pa.Schema, schema: Schema) -> list[int | None]:
    """For every column of the table the position of its data; None where it is all NULL.

    Names match exactly, or else with case ignored.

    Raises:
        SchemaMismatchError: DAT-2, columns that the table lacks, that are doubled, that are
            missing though NOT NULL, or of a type that does not fit; names them all.
    """
    positions: dict[str, int] = {}
    for at, name in enumerate(given.names):
        if name.casefold() in positions:
            first = given.names[positions[name.casefold()]]
            raise SchemaMismatchError(
                f"the data has columns {first!r} and {name!r}, the same but for case; drop one",
                [first, name],
            )
        positions[name.casefold()] = at
    extra = [n for n in given.names if schema.find(n) is None]
    if extra:
        raise SchemaMismatchError(
            f"the data has columns that the table lacks: {', '.join(map(repr, extra))}; "
            f"the table has {', '.join(map(repr, schema.names))}",
            extra,
        )
    found = [positions.get(f.name.casefold()) for f in schema.fields]
    missing = [
        f.name for f, at in zip(schema.fields, found, strict=True) if at is None and not f.nullable
    ]
    if missing:
        raise SchemaMismatchError(
            f"the data lacks columns that are NOT NULL: {', '.join(map(repr, missing))}", missing
        )
    for column, place in zip(schema.fields, found, strict=True):
        if place is not None:
            _check_type(column, given.field(place).type)
    return found


def _check_type(column: Field, given: pa.DataType) -> None:
    if pa.types.is_null(given):
        return
    theirs = from_arrow(pa.schema([pa.field(column.name, given)])).fields[0].type
    problem = _misfit(theirs, column.type, column.name)
    if problem:
        raise SchemaMismatchError(f"{problem}; cast the data first", [column.name])


def _misfit(given: Type, wanted: Type, where: str) -> str | None:
    """Why values of one type never fit another; None if they do, or do value by value."""
    if isinstance(given, Struct) and isinstance(wanted, Struct):
        return _misfit_struct(given, wanted, where)
    if isinstance(given, Array) and isinstance(wanted, Array):
        return _misfit(given.element, wanted.element, where + ".element")
    if isinstance(given, Map) and isinstance(wanted, Map):
        return _misfit(given.key, wanted.key, where + ".key") or _misfit(
            given.value, wanted.value, where + ".value"
        )
    if given == wanted or (_is_number(given) and _is_number(wanted)):
        return None
    return f"column {where!r} is {wanted} in the table and {given} in the data"


def _misfit_struct(given: Struct, wanted: Struct, where: str) -> str | None:
    theirs = {f.name: f for f in given.fields}
    extra = [n for n in theirs if n not in {f.name for f in wanted.fields}]
    if extra:
        return f"column {where!r} has fields in the data that the table lacks: {extra}"
    for column in wanted.fields:
        found = theirs.get(column.name)
        if found is None and not column.nullable:
            return f"field {where}.{column.name} is NOT NULL and missing in the data"
        problem = found and _misfit(found.type, column.type, f"{where}.{column.name}")
        if problem:
            return problem
    return None


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _NUMBERS)


def conform(batch: pa.Table, positions: Sequence[int | None], schema: Schema) -> pa.Table:
    """The rows with exactly the table's columns and types, named as in data files.

    Raises:
        SchemaMismatchError: SCH-5, a value that does not fit its column.
        ConstraintViolationError: DAT-3, NULL in a NOT NULL column.
    """
    arrays = []
    for column, at in zip(schema.fields, positions, strict=True):
        target = arrow_type(column.type)
        if at is None:
            values: Any = pa.nulls(batch.num_rows, target)
        else:
            values = _cast(batch.column(at), target, column.name)
        if not column.nullable and values.null_count:
            raise ConstraintViolationError(
                f"column {column.name!r} is NOT NULL, and {values.null_count} of "
                f"{batch.num_rows} rows are NULL there; nothing was written"
            )
        _check_nested_nulls(values, column.type, column.name)
        arrays.append(values)
    return pa.table(arrays, names=[f.physical for f in schema.fields])


def _cast(values: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    kind = values.type
    if kind == target:
        return values
    if pa.types.is_dictionary(kind):
        return _cast(values.cast(kind.value_type), target, name)
    if pa.types.is_run_end_encoded(kind):
        decoded = [pc.run_end_decode(chunk) for chunk in values.chunks]
        return _cast(pa.chunked_array(decoded, kind.value_type), target, name)
    if pa.types.is_struct(kind) and pa.types.is_struct(target):
        return pa.chunked_array([_struct(c, target, name) for c in values.chunks], target)
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(
            f"column {name!r}: a value of type {kind} does not fit {target} without loss "
            f"({str(error).splitlines()[0]}); nothing was written",
            [name],
        ) from None


def _struct(values: pa.StructArray, target: pa.StructType, name: str) -> pa.StructArray:
    """Fields by name, whatever their order; missing ones are NULL."""
    children = []
    fields = [target.field(i) for i in range(target.num_fields)]
    for wanted in fields:
        at = values.type.get_field_index(wanted.name)
        if at < 0:
            children.append(pa.nulls(len(values), wanted.type))
            continue
        child = pa.chunked_array([values.field(at)])
        combined = _cast(child, wanted.type, f"{name}.{wanted.name}").combine_chunks()
        children.append(combined)
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _check_nested_nulls(values: Any, kind: Type, name: str) -> None:
    """DAT-3 inside structs, lists and maps."""
    if isinstance(kind, Struct):
        for column in kind.fields:
            inner = pc.struct_field(values, column.name)
            present = pc.is_valid(values)
            if not column.nullable and pc.sum(pc.and_(pc.is_null(inner), present)).as_py():
                raise ConstraintViolationError(
                    f"field {name}.{column.name} is NOT NULL and NULL in the data; nothing was "
                    "written"
                )
            _check_nested_nulls(inner, column.type, f"{name}.{column.name}")
    elif isinstance(kind, Array):
        inner = pc.list_flatten(values)
        if not kind.nullable and inner.null_count:
            raise ConstraintViolationError(
                f"elements of {name} are NOT NULL and NULL in the data; nothing was written"
            )
        _check_nested_nulls(inner, kind.element, f"{name}.element")
