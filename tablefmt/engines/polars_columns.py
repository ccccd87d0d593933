"""Columns of data files as polars expressions, with the names and types of a version.

Spec: DAT-4, DAT-8, DAT-12, SCH-7.
"""

from __future__ import annotations

from typing import Any

import polars
import pyarrow as pa

from tablefmt.data.layouts import AlikeFiles
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Array, Decimal, Field, Map, Struct, Type


def polars_type(kind: pa.DataType) -> Any:
    """Return the polars type of an Arrow type."""
    frame = polars.from_arrow(pa.table({"c": pa.nulls(0, kind)}))
    assert isinstance(frame, polars.DataFrame)
    return frame.schema["c"]


def column(group: AlikeFiles, field: Field) -> polars.Expr:
    """Return a column of alike files as an expression."""
    place = group.columns.get_field_index(field.physical)
    if place >= 0:
        stored = group.columns.field(place).type
        return _value(polars.col(field.physical), field.type, stored).alias(field.name)
    return _constant(group.lacked(field)).alias(field.name)


def _constant(known: pa.Scalar) -> polars.Expr:
    """Return a constant over which polars can push down a condition."""
    kind = polars_type(known.type)
    if not known.is_valid:
        return polars.lit(None, dtype=kind)
    if pa.types.is_temporal(known.type):
        # Beyond Python's calendar, only days and microseconds are available.
        plain = known.cast(pa.int32() if pa.types.is_date(known.type) else pa.int64())
        return polars.lit(plain.as_py()).cast(kind)
    return polars.lit(known.as_py(), dtype=kind)


def is_read_exactly(stored: pa.DataType, kind: Type) -> bool:
    """Return whether `column` reads a file's column exactly as `arrow_type(kind)`."""
    types = pa.types
    if isinstance(kind, Struct):
        return bool(types.is_struct(stored)) and all(
            (at := stored.get_field_index(f.physical)) < 0
            or is_read_exactly(stored.field(at).type, f.type)
            for f in kind.fields
        )
    if isinstance(kind, Array):
        return bool(types.is_list(stored)) and is_read_exactly(stored.value_type, kind.element)
    if isinstance(kind, Map):
        return bool(stored == arrow_type(kind))
    if isinstance(kind, Decimal):
        return bool(types.is_signed_integer(stored) or types.is_decimal(stored))
    return bool(stored == arrow_type(kind)) or str(stored) in _WIDENED.get(kind.name, ())


_WIDENED = {
    "short": ("int8",),
    "integer": ("int8", "int16"),
    "long": ("int8", "int16", "int32"),
    "double": ("int8", "int16", "int32", "float"),
    "timestamp_ntz": ("date32[day]",),
}
"""Arrow's names of file types that polars casts exactly (SCH-9)."""


def _value(value: polars.Expr, kind: Type, stored: pa.DataType) -> polars.Expr:
    if isinstance(kind, Struct):
        if _is_as_written(kind, stored):
            return value
        parts = []
        for f in kind.fields:
            at = stored.get_field_index(f.physical)
            if at < 0:
                part = polars.lit(None, dtype=polars_type(arrow_type(f.type)))
            else:
                part = _value(value.struct.field(f.physical), f.type, stored.field(at).type)
            parts.append(part.alias(f.name))
        return polars.when(value.is_not_null()).then(polars.struct(parts))
    if isinstance(kind, Array):
        if _is_as_written(kind, stored):
            return value
        return value.list.eval(_value(polars.element(), kind.element, stored.value_type))
    target = arrow_type(kind)
    return value if stored == target else value.cast(polars_type(target))


def _is_as_written(kind: Type, stored: pa.DataType) -> bool:
    """Return whether names and types at every depth equal those of the file."""
    if isinstance(kind, Struct):
        return [f.name for f in kind.fields] == [
            stored.field(at).name for at in range(stored.num_fields)
        ] and all(
            f.name == f.physical and _is_as_written(f.type, stored.field(at).type)
            for at, f in enumerate(kind.fields)
        )
    if isinstance(kind, Array):
        return _is_as_written(kind.element, stored.value_type)
    return bool(stored == arrow_type(kind))
