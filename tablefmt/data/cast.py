"""Casts of input data to the exact columns and types of a table. Pure.

Spec: SCH-5 (types), DAT-2 (columns by name), DAT-3 (NOT NULL), DAT-14 (lengths).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from tablefmt.data.nested_nulls import check_nested_nulls
from tablefmt.data.nested_values import converted, may_hide_nulls, nulls, relabelled
from tablefmt.data.side_by_side import side_by_side
from tablefmt.data.text_lengths import fit_length
from tablefmt.data.type_fit import arrow_misfit
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.defaults import default_array
from tablefmt.model.match_names import match_names
from tablefmt.model.schema import Field, Schema, is_nested

THREAD_ROWS = 1 << 15
"""Fewer rows are checked faster without threads."""

THREADS = max(1, pa.cpu_count())
"""Columns that are checked in parallel."""


@lru_cache(maxsize=64)
def match_columns(given: pa.Schema, schema: Schema) -> tuple[int | None, ...]:
    """Return the position of the data for every table column; None where it is not given.

    Raises:
        SchemaMismatchError: as `match_names`; SCH-5, a type does not fit.
    """
    places = match_names(given.names, schema)
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
