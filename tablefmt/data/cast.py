"""Data as given, cast to exactly the columns and types of a table, or refused by name. Pure.

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
"""Fewer are looked at sooner than threads begin."""

THREADS = max(1, pa.cpu_count())
"""Columns looked at at once."""


@lru_cache(maxsize=64)
def match_columns(given: pa.Schema, schema: Schema) -> tuple[int | None, ...]:
    """For every column of the table the position of its data; None where it is not given.

    Raises:
        SchemaMismatchError: as `match_names`; SCH-5, a type that does not fit.
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
        raise SchemaMismatchError(f"{problem}; cast the data first", [column.name])


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
                f"column {column.name!r} is NOT NULL, and {values.null_count} of "
                f"{batch.num_rows} rows are NULL there; nothing was written"
            )
        if is_nested(column.type):
            check_nested_nulls(values, column.type, column.name)
            # Fields within carry their ids and physical names.
            values = relabelled(values, field.type)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=shape)


def _check_sound(batch: pa.Table, names: Mapping[int | None, str]) -> None:
    """Refuse text that is not UTF-8, and places outside of a dictionary: Arrow takes both unseen,
    and nobody could read them back.
    """

    def check(at: int) -> None:
        try:
            batch.column(at).validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            raise SchemaMismatchError(
                f"column {names[at]!r} is not sound Arrow data ({str(error).splitlines()[0]}); "
                "mend or decode it first; nothing was written",
                [names[at]],
            ) from None

    doubtful = [at for at in names if at is not None and not _is_sound(batch.schema.field(at).type)]
    # One after the other they would take a twelfth of the time that it takes to write them.
    large = batch.num_rows >= THREAD_ROWS
    for _ in side_by_side(check, iter(doubtful), THREADS) if large else map(check, doubtful):
        pass


def _is_sound(kind: pa.DataType) -> bool:
    """Whether all values of a type are."""
    return bool(pa.types.is_primitive(kind))


def default_column(column: Field, shape: pa.DataType, rows: int) -> pa.Array:
    """A column that was not given: its default (SCH-7)."""
    if column.default is None:
        return nulls(rows, shape)
    return pa.repeat(default_array(column.default, column.type)[0], rows)


def cast_column(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """The values as the column has them.

    Raises:
        SchemaMismatchError: SCH-5, one does not fit.
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
            f"({str(error).splitlines()[0]}); nothing was written",
            [name],
        ) from None
