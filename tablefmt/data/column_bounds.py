"""Column bounds from the footer of a data file, without reading data. Pure.

Every bound is exact, rounded outwards, or left out. A missing bound keeps a file in a scan; a wrong
bound loses rows. Spec: PRN-11 .. PRN-14 (spec/pruning.md).
"""

from __future__ import annotations

import decimal
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.ansi_comparisons import INTEGERS
from tablefmt.model.arrow_types import FIELD_ID
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.log_entry import Metadata
from tablefmt.model.properties import split_names
from tablefmt.model.scalar_values import encode_value, lower_bound, upper_bound
from tablefmt.model.schema import Decimal, Field, Schema, Type, is_float, is_nested, kind_name

STATS_COLUMNS = 32
"""Columns with bounds unless the property `statsColumns` sets others."""

STATS_PROPERTY = "statsColumns"

_EXACT = decimal.Context(prec=80)
_log = logging.getLogger(__name__)

SCHEMAS_KEPT = 8
"""Parquet schemas whose columns are remembered."""

Convert = Callable[[Any, bool], Any]
"""Converts a raw footer value, given whether it is an upper bound; returns None if unknown."""

_Source: TypeAlias = "tuple[Field, int, Convert | None]"
"""A column, its place in the files, and the conversion of its values."""


def stats_columns(schema: Schema, properties_value: str | None = None) -> list[Field]:
    """Return the columns that files keep bounds for, in the schema's order. Spec: PRN-11.

    Args:
        properties_value: the property `statsColumns`: names separated by commas, backticks around
            names with a comma; empty for no column. None: the first `STATS_COLUMNS` flat columns.

    Raises:
        SchemaMismatchError: a name is not in the schema, or names a nested column.
    """
    if properties_value is None:
        return [f for f in schema.fields if not is_nested(f.type)][:STATS_COLUMNS]
    chosen: set[int] = set()
    for name in split_names(properties_value):
        field = schema.find(name)
        if field is None or is_nested(field.type):
            reason = "does not exist" if field is None else "is nested and has no bounds"
            raise SchemaMismatchError(
                f"property {STATS_PROPERTY}: column {name!r} {reason}. Name some of the columns "
                f"{', '.join(repr(f.name) for f in schema.fields[:50] if not is_nested(f.type))}",
                [name],
            )
        chosen.add(field.id)
    return [f for f in schema.fields if f.id in chosen]


def stats_of(metadata: Metadata) -> list[Field]:
    """Return the columns with bounds in files that are written under this metadata.

    An invalid property value is ignored (PTY-1). Earlier writers accepted such values, and the
    table must stay writable. The columns of the clustering order always have bounds (CMP-8).
    """
    try:
        chosen = stats_columns(metadata.schema, metadata.properties.get(STATS_PROPERTY))
    except SchemaMismatchError:
        chosen = stats_columns(metadata.schema)
    ids = {field.id for field in (*chosen, *clustering_of(metadata))}
    return [field for field in metadata.schema.fields if field.id in ids]


def stats_problem(schema: Schema, properties: Mapping[str, str]) -> SchemaMismatchError | None:
    """Return the error for properties that name columns without bounds; None if there is none."""
    try:
        stats_columns(schema, properties.get(STATS_PROPERTY))
    except SchemaMismatchError as error:
        return error
    return None


def file_bounds(metadata: pq.FileMetaData, fields: Sequence[Field]) -> dict[str, Any]:
    """Return bounds and null counts of one file, from its footer.

    Args:
        metadata: the footer, as pyarrow, parquet-mr or another writer made it.
        fields: flat top-level columns, as `stats_columns` returns them. A column is found by its
            physical name. A column with another field's Parquet field id gets no bounds.

    Returns:
        `lower.<id>`, `upper.<id>` and `nulls.<id>` as JSON values of VAL-1. Unknown values are left
        out. Bounds ignore NaN and are never NaN. Spec: PRN-12 .. PRN-14.
    """
    return FooterBounds(fields).of(metadata)


class FooterBounds:
    """Bounds of many files. Places and conversions are found once for each Parquet schema."""

    def __init__(self, fields: Sequence[Field]) -> None:
        """Take the columns, as `file_bounds`."""
        self._fields = fields
        self._known: list[tuple[pq.ParquetSchema, list[_Source]]] = []

    def of(self, metadata: pq.FileMetaData) -> dict[str, Any]:
        """Return bounds and null counts of one file, as `file_bounds`."""
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        groups = [g for g in groups if g.num_rows]
        bounds: dict[str, Any] = {}
        for field, place, convert in self._sources(metadata):
            _merge(bounds, field, groups, place, convert)
        return bounds

    def _sources(self, metadata: pq.FileMetaData) -> list[_Source]:
        parquet = metadata.schema
        # The newest is the likeliest.
        for known, sources in reversed(self._known):
            if parquet.equals(known):
                return list(sources)
        places = _leaf_places(metadata)
        sources = []
        for field in self._fields:
            place, identity = places.get(field.physical, (None, None))
            if place is not None and identity in (None, field.id):
                sources.append((field, place, _converter(field.type, parquet.column(place))))
        self._known = [*self._known[-SCHEMAS_KEPT + 1 :], (parquet, sources)]
        return sources


def _leaf_places(metadata: pq.FileMetaData) -> dict[str, tuple[int, int | None]]:
    """Return leaf index and Parquet field id of every flat top-level column, by name."""
    try:
        schema = metadata.schema.to_arrow_schema()
    except pa.ArrowException as error:
        _log.debug("unreadable schema in a footer; the file gets no bounds: %s", error)
        return {}
    places: dict[str, tuple[int, int | None]] = {}
    place = 0
    for column in schema:
        if not pa.types.is_nested(column.type):
            identity = (column.metadata or {}).get(FIELD_ID)
            places[column.name] = (place, None if identity is None else int(identity))
            place += 1
        else:
            place += _leaves(column.type)
    return places if place == metadata.num_columns else {}


def _leaves(kind: pa.DataType) -> int:
    count = kind.num_fields
    return sum(_leaves(kind.field(i).type) for i in range(count)) if count else 1


def _merge(
    bounds: dict[str, Any], field: Field, groups: list[Any], place: int, convert: Convert | None
) -> None:
    """Add the bounds and null count of one column over all row groups."""
    nulls: int | None = 0
    lower: Any = None
    upper: Any = None
    known = convert is not None
    for group in groups:
        chunk = group.column(place)
        stats = chunk.statistics if chunk.is_stats_set else None
        if stats is None:
            return
        count = stats.null_count if stats.has_null_count else None
        nulls = None if nulls is None or count is None else nulls + count
        if count == group.num_rows:
            continue
        if not known or convert is None or not stats.has_min_max:
            known = False
            continue
        low, high = convert(stats.min_raw, False), convert(stats.max_raw, True)
        if low is None or high is None or low > high:
            known = False
            continue
        lower = low if lower is None or low < lower else lower
        upper = high if upper is None or high > upper else upper
    if nulls is not None:
        bounds[f"nulls.{field.id}"] = nulls
    if known and lower is not None:
        kind = kind_name(field.type)
        if is_float(field.type):
            # The two zeros are equal, so a bound must include both. Spec: PRN-13.
            lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
        bounds[f"lower.{field.id}"] = encode_value(lower_bound(lower), kind)
        upper = upper_bound(upper)
        if upper is not None:
            bounds[f"upper.{field.id}"] = encode_value(upper, kind)


def _converter(kind: Type, column: Any) -> Convert | None:
    """Return how to convert raw footer values of a column to `kind`; None if impossible."""
    physical = column.physical_type
    logical = str(column.logical_type)
    if isinstance(kind, Decimal):
        return _decimal_converter(kind, column, physical, logical)
    name = str(kind)
    if name in INTEGERS:
        end = INTEGERS[name]
        signed = logical in ("None", "") or (
            logical.startswith("Int(") and "isSigned=true" in logical
        )
        if physical in ("INT32", "INT64") and signed:
            return lambda raw, _: raw if -end <= raw < end else None
        return None
    if name in ("timestamp", "timestamp_ntz"):
        return _timestamp_converter(physical, logical)
    if name in ("float", "double"):
        widths = ("FLOAT",) if name == "float" else ("FLOAT", "DOUBLE")
        return _number if physical in widths else None
    plain = {
        "boolean": (("BOOLEAN",), ("None",), _same),
        "date": (("INT32",), ("Date",), _same),
        "string": (("BYTE_ARRAY",), ("String", "Enum"), _text),
        "binary": (("BYTE_ARRAY",), ("None",), _same),
    }
    physicals, logicals, convert = plain[name]
    return convert if physical in physicals and logical in logicals else None


def _same(raw: Any, _: bool) -> Any:
    return raw


def _number(raw: float, _: bool) -> float | None:
    return None if raw != raw else raw


def _text(raw: bytes, _: bool) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _decimal_converter(kind: Decimal, column: Any, physical: str, logical: str) -> Convert | None:
    if not logical.startswith("Decimal") or column.scale > kind.scale:
        return None
    scale = column.scale
    end = decimal.Decimal(10 ** (kind.precision - kind.scale))
    exponent = -kind.scale

    def convert(raw: Any, _: bool) -> Any:
        unscaled = raw if type(raw) is int else int.from_bytes(raw, "big", signed=True)
        value = decimal.Decimal(unscaled).scaleb(-scale, _EXACT)
        if not -end < value < end:
            return None
        return value.quantize(decimal.Decimal(1).scaleb(exponent), context=_EXACT)

    return convert if physical in ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY") else None


def _timestamp_converter(physical: str, logical: str) -> Convert | None:
    if physical != "INT64" or not logical.startswith("Timestamp"):
        return None
    if "timeUnit=microseconds" in logical:
        return _same
    if "timeUnit=milliseconds" in logical:
        return lambda raw, _: raw * 1000 if abs(raw) < 1 << 53 else None
    if "timeUnit=nanoseconds" in logical:
        return lambda raw, is_upper: -(-raw // 1000) if is_upper else raw // 1000
    return None


def nan_counts(table: pa.Table, fields: Sequence[Field]) -> dict[int, int]:
    """Return the NaN count of each float or double column of `fields`, by field id.

    Args:
        table: columns by physical name. Missing columns are left out.
    """
    names = set(table.column_names)
    floats = [f for f in fields if is_float(f.type) and f.physical in names]
    return {f.id: _nans(table.column(f.physical)) for f in floats}


def _nans(values: pa.ChunkedArray) -> int:
    if values.null_count:
        # The storage under a NULL may hold NaN.
        values = values.drop_null()
    return sum(int(np.count_nonzero(np.isnan(each.to_numpy()))) for each in values.chunks)
