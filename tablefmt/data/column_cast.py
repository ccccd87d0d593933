"""Casts of input data to the exact columns and types of a table. Pure.

Data types fit by the types alone. Given columns match a table's columns by name. NOT NULL and
variant bytes are checked at any depth. Text is checked and padded to its declared length. Spec:
SCH-5, SCH-6 (types), SCH-10, DAT-14 (lengths), DAT-2 (columns by name), DAT-3 (NOT NULL).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.value_conversion import (
    converted,
    map_parts,
    may_hide_nulls,
    nulls,
    places_of_fields,
    relabelled,
)
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type, from_arrow_field, is_list
from tablefmt.model.defaults import default_array
from tablefmt.model.name_matching import folded
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
    length_of,
    too_long,
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


_VERSION = 1
"""Value of the low four bits of the first metadata byte."""


def check_nested_nulls(values: Any, kind: Type, name: str) -> None:
    """Check NOT NULL in structs, lists and maps (DAT-3), and variants (SCH-6)."""
    if is_variant(kind):
        check_nested_nulls(values, VARIANT, name)
        _check_variants(values, name)
    elif isinstance(kind, Struct):
        for column in kind.fields:
            # Access by index: Arrow takes a name that begins with a dot for a path.
            inner = pc.struct_field(values, [values.type.get_field_index(column.name)])
            present = pc.is_valid(values)
            if not column.nullable and pc.sum(pc.and_(pc.is_null(inner), present)).as_py():
                raise ConstraintViolationError(
                    f"field {name}.{column.name} is NOT NULL, but the data has NULL. Nothing "
                    "was written; give it a value."
                )
            check_nested_nulls(inner, column.type, f"{name}.{column.name}")
    elif isinstance(kind, Array):
        inner = pc.list_flatten(values)
        _check_elements(inner, kind.nullable, f"elements of {name}")
        check_nested_nulls(inner, kind.element, f"{name}.element")
    elif isinstance(kind, Map):
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            _, keys, items = map_parts(chunk)
            _check_elements(items, kind.nullable, f"values of {name}")
            check_nested_nulls(keys, kind.key, f"{name}.key")
            check_nested_nulls(items, kind.value, f"{name}.value")


def _check_variants(values: Any, name: str) -> None:
    """Check variants by their first bytes. Raises SchemaMismatchError for an invalid one."""
    present = values.filter(pc.is_valid(values))
    heads = pc.binary_slice(pc.struct_field(present, "metadata"), 0, 1)
    versions = {head[0] & 0x0F if head else None for head in pc.unique(heads).to_pylist()}
    shortest = pc.min(pc.binary_length(pc.struct_field(present, "value"))).as_py()
    if versions - {_VERSION} or shortest == 0:
        raise SchemaMismatchError(
            f"column {name!r}: a value is not a valid VARIANT. Create variants with parse_json or "
            "to_variant_object in Spark, or read them from a VARIANT column.",
            [name],
        )


def _check_elements(inner: Any, nullable: bool, what: str) -> None:
    if not nullable and inner.null_count:
        raise ConstraintViolationError(
            f"{what} are NOT NULL, but the data has NULL. Nothing was written; give them a value."
        )


def fit_length(values: Any, column: Field) -> Any:
    """Return the values in the form of a column with a declared length; NULL stays NULL.

    Args:
        values: an array or a chunked array, of the column's type.
        column: a column with or without a declared length.

    Raises:
        ConstraintViolationError: a value is too long, not counting spaces at its end.
    """
    if column.text is None:
        return values
    padded, most = length_of(column.text)
    over = pc.greater(pc.utf8_length(values), most)
    if pc.any(over).as_py():
        left = pc.utf8_length(pc.utf8_rtrim(values, characters=" "))
        bad = pc.index(pc.greater(left, most), True).as_py()
        if bad >= 0:
            value = values[bad].as_py()
            raise too_long(column.name, column.text, len(value), value)
        values = pc.if_else(over, pc.utf8_slice_codeunits(values, 0, most), values)
    return pc.utf8_rpad(values, most, padding=" ") if padded else values


def match_names(
    given: Sequence[str],
    schema: Schema,
    more: Collection[str] = (),
    filled: Collection[int] = (),
) -> list[int | None]:
    """Return the position in `given` of every top-level column of the table; None if it is missing.

    Names match exactly, or else with case ignored.

    Args:
        given: names of the data's columns.
        schema: the table's schema.
        more: names of additional columns that are allowed.
        filled: ids of columns that are computed where the data lacks them (GEN-3).

    Raises:
        SchemaMismatchError: DAT-2. The data has columns that the table lacks, or doubled columns,
            or lacks columns that are NOT NULL without a default. The error names all of them.
    """
    positions: dict[str, int] = {}
    for at, name in enumerate(given):
        first = given[positions.setdefault(folded(name), at)]
        if positions[folded(name)] != at:
            raise SchemaMismatchError(
                f"the data has columns {first!r} and {name!r}, which differ only in case; drop one",
                [first, name],
            )
    extra = [name for name in given if schema.find(name) is None and name not in more]
    if extra:
        raise SchemaMismatchError(
            f"the data has columns that the table lacks: {', '.join(map(repr, extra))}; "
            f"the table has {', '.join(map(repr, schema.names))}",
            extra,
        )
    places = [positions.get(folded(field.name)) for field in schema.fields]
    missing = [
        field.name
        for field, at in zip(schema.fields, places, strict=True)
        if at is None and not field.nullable and field.default is None and field.id not in filled
    ]
    if missing:
        raise SchemaMismatchError(
            f"the data lacks columns that are NOT NULL: {', '.join(map(repr, missing))}", missing
        )
    return places


THREAD_ROWS = 1 << 15
"""Fewer rows are checked faster without threads."""

THREADS = max(1, pa.cpu_count())
"""Columns that are checked in parallel."""


def match_columns(
    given: pa.Schema, schema: Schema, filled: frozenset[int] = frozenset()
) -> tuple[int | None, ...]:
    """Return the position of the data for every table column; None where it is not given.

    `filled` as in `match_names`.

    Raises:
        SchemaMismatchError: as `match_names`; SCH-5, a type does not fit.
    """
    return _matched(given.remove_metadata(), schema, filled)


@lru_cache(maxsize=64)
def _matched(given: pa.Schema, schema: Schema, filled: frozenset[int]) -> tuple[int | None, ...]:
    places = match_names(given.names, schema, (), filled)
    for column, place in zip(schema.fields, places, strict=True):
        if place is not None:
            _check_type(column, given.field(place).type)
    return tuple(places)


def _check_type(column: Field, given: pa.DataType) -> None:
    if given == arrow_type(column.type):
        return
    problem = arrow_misfit(given, column.type, column.name)
    if problem:
        raise SchemaMismatchError(f"{problem}. Cast the data first.", [column.name])


def cast_to_schema(
    batch: pa.Table, positions: Sequence[int | None], schema: Schema, shape: pa.Schema
) -> pa.Table:
    """Return the rows with exactly the table's columns and types, as data files store them.

    Args:
        batch: the rows as given.
        positions: as `match_columns` returns them.
        schema: the table's schema.
        shape: `file_schema(schema)`.

    Raises:
        SchemaMismatchError: SCH-5, a value does not fit its column, or text is not UTF-8; SCH-6,
            bytes are not a variant.
        ConstraintViolationError: DAT-3, NULL in a NOT NULL column; DAT-14, text is too long.
    """
    _check_sound(
        batch, {at: column.name for column, at in zip(schema.fields, positions, strict=True)}
    )
    arrays = []
    for column, at, field in zip(schema.fields, positions, shape, strict=True):
        target = arrow_type(column.type)
        if at is None:
            arrays.append(default_column(column, field.type, batch.num_rows))
            continue
        values = fit_length(_cast(batch.column(at), target, column.name), column)
        if not column.nullable and values.null_count:
            raise ConstraintViolationError(
                f"column {column.name!r} is NOT NULL, but {values.null_count} of "
                f"{batch.num_rows} rows have NULL. Nothing was written; give these rows a value."
            )
        if is_nested(column.type):
            check_nested_nulls(values, column.type, column.name)
            # Nested fields need their ids and physical names.
            values = relabelled(values, field.type)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=shape)


def _check_sound(batch: pa.Table, names: Mapping[int | None, str]) -> None:
    """Refuse text that is not UTF-8, and dictionary indices out of range.

    Arrow accepts both without an error, but no reader could read them.
    """

    def check(at: int) -> None:
        try:
            batch.column(at).validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            raise SchemaMismatchError(
                f"column {names[at]!r} holds invalid Arrow data ({str(error).splitlines()[0]}). "
                "Nothing was written; repair or decode the column first.",
                [names[at]],
            ) from None

    doubtful = [at for at in names if at is not None and not _is_sound(batch.schema.field(at).type)]
    # Sequential checks take a twelfth of the time of the write.
    large = batch.num_rows >= THREAD_ROWS
    for _ in side_by_side(check, iter(doubtful), THREADS) if large else map(check, doubtful):
        pass


def _is_sound(kind: pa.DataType) -> bool:
    """Return whether a type has no invalid values."""
    return bool(pa.types.is_primitive(kind))


def default_column(column: Field, shape: pa.DataType, rows: int) -> pa.Array:
    """Return the default values of a column that was not given (SCH-7)."""
    if column.default is None:
        return nulls(rows, shape)
    return pa.repeat(default_array(column.default, column.type)[0], rows)


def cast_column(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return the values in the column's type.

    Raises:
        SchemaMismatchError: SCH-5, a value does not fit.
    """
    return _cast(values, arrow_type(column.type), column.name)


def _cast(values: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    if values.type == target and not may_hide_nulls(target):
        return values
    try:
        return pa.chunked_array([converted(c, target) for c in values.chunks], target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaMismatchError(
            f"column {name!r}: a value of type {values.type} does not fit {target} without loss "
            f"({str(error).splitlines()[0]}). Nothing was written; convert the data first.",
            [name],
        ) from None
