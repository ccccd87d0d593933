"""Conversion of user data to a stream of Arrow batches, and its schema. Pure.

Dicts of columns and lists of dicts become Arrow tables. With an explicit type, Arrow silently
converts: 1.5 to 1 for an integer, a datetime to its date. It also drops unknown struct fields. So
Arrow gets a type only if all values already have it. Otherwise Arrow infers a type, and the usual
rules decide whether it fits the column. Spec: DAT-2, SCH-5, SCH-7.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.data.value_conversion import decoded
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type, from_arrow_field, is_list
from tablefmt.model.defaults import default_array
from tablefmt.model.schema import Field, Schema
from tablefmt.model.schema_rules import number_fields

_WHOLE = (int, np.integer)
_NUMBERS = (int, float, np.integer, np.floating)


def is_python_rows(data: Any) -> bool:
    """Return whether data is of a kind that this module reads, well-formed or not."""
    return isinstance(data, Mapping | list | tuple)


def python_table(data: Any, schema: Schema | None = None) -> pa.Table:
    """Return rows of Python values as an Arrow table.

    Args:
        data: a dict of columns by name: lists, or arrays of numpy, pandas, polars or Arrow, of one
            length; or a list of dicts, whose keys are combined. A key that a dict lacks is the
            column's default, or NULL.
        schema: the schema of the target table. Its columns get their types if the values have them,
            and naive times are UTC for a timestamp. Other columns get the type that Arrow infers.
            None: Arrow infers all types.

    Returns:
        The columns in the order of the keys. For no rows and no key: the columns of `schema`.

    Raises:
        SchemaMismatchError: values of mixed types, columns of different lengths, or invalid data.
    """
    if isinstance(data, Mapping):
        arrays = {_named(name): _column(name, values, schema) for name, values in data.items()}
        return _table(arrays, 0, schema)
    for at, row in enumerate(data):
        if not isinstance(row, Mapping):
            raise SchemaMismatchError(
                f"row {at} of the {type(data).__name__}: expected a dict by column name, got "
                f"{type(row).__name__}"
            )
    keys = dict.fromkeys(key for row in data for key in row)
    arrays = {_named(key): _of_rows(key, data, schema) for key in keys}
    return _table(arrays, len(data), schema)


def _named(name: Any) -> str:
    if not isinstance(name, str):
        raise SchemaMismatchError(
            f"column name {name!r:.100}: expected text, got {type(name).__name__}"
        )
    return name


def _table(arrays: Mapping[str, Any], rows: int, schema: Schema | None) -> pa.Table:
    if arrays:
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
            raise SchemaMismatchError(
                f"the columns have different lengths: {shown:.300}. Give all columns the same "
                "length."
            )
        return pa.table(list(arrays.values()), names=list(arrays))
    if rows or schema is None:
        empty = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.Table.from_batches([empty])
    fields = [pa.field(f.name, arrow_type(f.type)) for f in schema.fields]
    return pa.schema(fields).empty_table()


def _of_rows(key: str, rows: Sequence[Mapping[str, Any]], schema: Schema | None) -> pa.Array:
    column = None if schema is None else schema.find(key)
    absent = None
    if column is not None and column.default is not None:
        absent = default_array(column.default, column.type)[0].as_py()
    return _values(key, [row.get(key, absent) for row in rows], column)


def _column(name: str, values: Any, schema: Schema | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    if isinstance(values, list | tuple | range):
        return _values(name, list(values), None if schema is None else schema.find(name))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if hasattr(values, "__array__") or hasattr(values, "__arrow_c_array__"):
            return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _no_column(name, error) from None
    raise SchemaMismatchError(
        f"column {name!r}: expected a list or an array, got {type(values).__name__}", [name]
    )


def _values(name: str, values: list[Any], column: Field | None) -> pa.Array:
    kind = None if column is None else arrow_type(column.type)
    try:
        if kind is not None and _fit(values, kind):
            try:
                return pa.array(values, kind)
            except (pa.ArrowInvalid, OverflowError):
                # A number is out of the type's range. The inferred type describes it.
                pass
        _check_kinds(name, values)
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _no_column(name, error) from None


def _no_column(name: str, error: BaseException) -> SchemaMismatchError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return SchemaMismatchError(
        f"the values of column {name!r} have no common type that a column can have: {first:.300}",
        [name],
    )


Test = Callable[[Any], bool]


def _fit(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Return whether Arrow, given the type, converts the values exactly or raises an error."""
    right = _class_test(kind)
    if right is not None:
        return all(map(right, set(map(type, values)) - {type(None)}))
    return all(map(_test_of(kind), values))


def _test_of(kind: pa.DataType) -> Test:
    """Return the same test for one value."""
    right = _class_test(kind)
    test = _value_test(kind) if right is None else lambda value: right(type(value))
    return lambda value: value is None or test(value)


def _class_test(kind: pa.DataType) -> Callable[[type], bool] | None:
    """Return a test of the value's class; None for a type where the class is not enough."""
    types = pa.types
    if types.is_boolean(kind):
        return lambda cls: issubclass(cls, _TRUTHS)
    if types.is_date(kind):
        return lambda cls: issubclass(cls, datetime.date) and not issubclass(cls, datetime.datetime)
    for is_kind, classes in _CLASSES:
        if is_kind(kind):
            return partial(_is_class, classes)
    return None


def _is_class(classes: tuple[type, ...], cls: type) -> bool:
    # In Python, bool is a subclass of int.
    return issubclass(cls, classes) and not issubclass(cls, _TRUTHS)


def _value_test(kind: pa.DataType) -> Test:
    types = pa.types
    if types.is_float32(kind):
        return lambda v: _is_class(_NUMBERS, type(v)) and _is_single(v)
    if types.is_timestamp(kind):
        zoned = kind.tz is not None
        return lambda v: (
            isinstance(v, datetime.datetime)
            and (zoned or v.tzinfo is None)
            and not getattr(v, "nanosecond", False)
        )
    if types.is_struct(kind):
        return _struct_test(kind)
    if types.is_map(kind):
        return _map_test(kind)
    assert is_list(kind), kind
    element = _test_of(kind.value_type)
    return lambda v: isinstance(v, list | tuple | np.ndarray) and all(map(element, v))


_TRUTHS = (bool, np.bool_)
_CLASSES: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (pa.types.is_integer, _WHOLE),
    (pa.types.is_float64, _NUMBERS),
    (pa.types.is_decimal, (*_WHOLE, decimal.Decimal)),
    (pa.types.is_string, (str,)),
    (pa.types.is_binary, (bytes, bytearray, memoryview)),
)
"""Types for which every value of some classes fits."""


def _is_single(value: Any) -> bool:
    """Return whether the number stays finite as a float."""
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.float32(value)) == np.isinf(np.float64(value)))


def _struct_test(kind: pa.StructType) -> Test:
    fields = [kind.field(at) for at in range(kind.num_fields)]
    tests = {field.name: _test_of(field.type) for field in fields}

    def test(value: Any) -> bool:
        if not isinstance(value, Mapping) or not value.keys() <= tests.keys():
            return False
        return all(tests[name](inner) for name, inner in value.items())

    return test


def _map_test(kind: pa.MapType) -> Test:
    key, item = _test_of(kind.key_type), _test_of(kind.item_type)

    def test(value: Any) -> bool:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        return isinstance(pairs, list | tuple) and all(
            isinstance(pair, tuple) and len(pair) == 2 and key(pair[0]) and item(pair[1])
            for pair in pairs
        )

    return test


def _check_kinds(name: str, values: Sequence[Any]) -> None:
    """Refuse values that Arrow would silently convert to other values by inference.

    Raises:
        SchemaMismatchError: dates beside times, times with and without a zone, text beside bytes; a
            time finer than µs.
    """
    first: dict[str, str] = {}
    for value in _leaves(values):
        kind = _kind_of(value)
        if kind is None:
            continue
        if kind != first.setdefault(_LIKE[kind], kind):
            raise SchemaMismatchError(
                f"column {name!r} mixes {first[_LIKE[kind]]} and {kind}. Convert all values "
                f"to one kind.",
                [name],
            )
        if getattr(value, "nanosecond", False):
            raise SchemaMismatchError(
                f"column {name!r} has the time {value}, but times have microsecond precision. "
                "Round the value first.",
                [name],
            )


_LIKE = {
    "a date": "time", "a time with a zone": "time", "a time without a zone": "time",
    "text": "text", "bytes": "text",
}  # fmt: skip
"""Kinds that Arrow would silently convert to one another."""


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _leaves(value.values())
        elif isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _kind_of(value: Any) -> str | None:
    if isinstance(value, datetime.datetime):
        return f"a time {'without' if value.tzinfo is None else 'with'} a zone"
    if isinstance(value, datetime.date):
        return "a date"
    if isinstance(value, bytes | bytearray):
        return "bytes"
    return "text" if isinstance(value, str) else None


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
        "reader, a polars or pandas frame, a dict of columns, a list of dicts, or any object with "
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
