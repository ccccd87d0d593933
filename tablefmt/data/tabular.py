"""Conversion of user data to a stream of Arrow batches, and its schema. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.data.plain_values import decoded
from tablefmt.data.python_rows import is_python_rows, python_table
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arrow_types import from_arrow_field, is_list
from tablefmt.model.numbering import number_fields
from tablefmt.model.schema import Schema


def as_reader(data: Any, schema: Schema | None = None) -> pa.RecordBatchReader:
    """Return any tabular data as a stream of batches, which can be read once.

    Accepts objects with `__arrow_c_stream__` (pyarrow, polars, pandas >= 3, DuckDB's relations, …)
    or `__arrow_c_array__` (a record batch, an array of structs), pandas and polars frames, dicts of
    columns and lists of dicts. Categories and other dictionaries become their values. Named levels
    of a pandas index become columns, unless a column has that name. Unnamed levels are left out.

    Args:
        data: the rows.
        schema: schema of the target table; see `python_table`.

    Raises:
        SchemaMismatchError: the data is of another kind.
    """
    try:
        return decoded(_reader_of(data, schema))
    except (pa.ArrowException, ValueError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise SchemaMismatchError(
            f"cannot read the {type(data).__name__} as a table: {first}"
        ) from None


def _reader_of(data: Any, schema: Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if is_python_rows(data):
        return python_table(data, schema).to_reader()
    if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
        return pa.Table.from_pandas(_with_index(data), preserve_index=False).to_reader()
    if type(data).__module__.startswith("polars") and hasattr(data, "collect"):
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)]).to_reader()
    hint = " (pass the rows before the condition)" if isinstance(data, str) else ""
    raise SchemaMismatchError(
        f"expected tabular data, got {type(data).__name__}{hint}. Pass a pyarrow Table or "
        f"reader, a "
        "polars or pandas frame, a dict of columns, a list of dicts, or any object with "
        "__arrow_c_stream__"
    )


def _with_index(frame: Any) -> Any:
    """Return a pandas frame with the named levels of its index as columns."""
    levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(level=levels) if levels else frame


def incoming_schema(given: pa.Schema, schema: Schema) -> Schema:
    """Return the columns of incoming rows, as far as the table may adopt them.

    A column that the table already has is left out if its type is not a column type. The write
    casts or refuses it.

    Args:
        given: schema of the rows.
        schema: the table's schema.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has an invalid name or type.
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
    """Return the type without parts that are NULL in every row; None if no part is left."""
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
