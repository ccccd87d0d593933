"""Cast new values to the types of columns by Spark's ANSI store assignment, and explain misfits.

Spark's own cast matches fields of structs by position, and all must exist. Here they match by name,
and a statement may set parts of a struct. Spark's error for a failed cast names the value and the
type. This module finds the columns that it may refer to. Spec: SQL-3, SQL-5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tablefmt.errors import SchemaMismatchError, TablefmtError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.set_assignments import Parts
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Decimal, Field, Schema, Struct, Type, nullable
from tablefmt.session.transaction_snapshot import OtherVersionRead
from tablefmt.spark.columns.projection import check_inner, misfit
from tablefmt.spark.columns.row_conditions import as_column
from tablefmt.spark.pyspark_objects import (
    Column,
    DataFrame,
    DataType,
    Functions,
    StructType,
    functions_of,
)
from tablefmt.spark.runtime.failures import DOES_NOT_FIT, statement_errors


def spark_types(fields: Sequence[Field]) -> StructType:
    """Return columns as a StructType of Spark in which everything is nullable."""
    from pyspark.sql.types import StructType

    described = to_spark_json(nullable(Schema(tuple(fields), max(f.id for f in fields))))
    for each in described["fields"]:
        each["metadata"] = {}
    return StructType.fromJson(described)


def same_type(one: DataType, two: DataType) -> bool:
    """Return whether two types of Spark are the same, ignoring nullability."""
    return bool(one.simpleString() == two.simpleString())


def cast_column(functions: Functions, value: Column, given: DataType, kind: DataType) -> Column:
    """Return a Column cast to another type. NULL stays NULL. Missing fields of structs are NULL.

    Args:
        functions: Spark's functions for the kind of session.
        value: a Column.
        given: its type in Spark.
        kind: the new type, which must be assignable.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if same_type(given, kind):
        return value
    if isinstance(given, StructType) and isinstance(kind, StructType):
        known = {folded(field.name): field for field in given.fields}
        fields = []
        for field in kind.fields:
            there = known.get(folded(field.name))
            if there is None:
                inner = functions.lit(None).cast(field.dataType)
            else:
                part = value.getField(there.name)
                inner = cast_column(functions, part, there.dataType, field.dataType)
            fields.append(inner.alias(field.name))
        return functions.when(value.isNotNull(), functions.struct(*fields))
    if isinstance(given, ArrayType) and isinstance(kind, ArrayType):
        old, new = given.elementType, kind.elementType
        return functions.transform(value, lambda each: cast_column(functions, each, old, new))
    if isinstance(given, MapType) and isinstance(kind, MapType):
        key_types, value_types = (given.keyType, kind.keyType), (given.valueType, kind.valueType)
        keys = functions.transform_keys(
            value, lambda key, _: cast_column(functions, key, *key_types)
        )
        return functions.transform_values(
            keys, lambda _, item: cast_column(functions, item, *value_types)
        )
    return value.cast(kind)


def overlaid(
    functions: Functions,
    value: Column,
    given: DataType,
    old: Column,
    there: DataType,
    result: DataType,
) -> Column:
    """Return a struct merged over an old one: its own fields, and else the old ones, at any depth.

    The result is NULL if the value is. Exception: the value lacks old fields, and the old struct
    was not NULL.

    Args:
        functions: Spark's functions for the kind of session.
        value: a Column.
        given: its type in Spark.
        old: the old value, a Column.
        there: the type of `old`.
        result: the type of the result. Each field is in `given` or in `there`.
    """
    from pyspark.sql.types import StructType

    if not (
        isinstance(given, StructType)
        and isinstance(there, StructType)
        and isinstance(result, StructType)
    ):
        return cast_column(functions, value, given, result)
    new, known = ({folded(f.name): f for f in kind.fields} for kind in (given, there))
    fields = []
    for field in result.fields:
        theirs, ours = new.get(folded(field.name)), known.get(folded(field.name))
        if theirs is None:
            assert ours is not None
            inner = cast_column(functions, old.getField(ours.name), ours.dataType, field.dataType)
        elif ours is None:
            part = value.getField(theirs.name)
            inner = cast_column(functions, part, theirs.dataType, field.dataType)
        else:
            inner = overlaid(
                functions,
                value.getField(theirs.name),
                theirs.dataType,
                old.getField(ours.name),
                ours.dataType,
                field.dataType,
            )
        fields.append(inner.alias(field.name))
    stays = value.isNotNull()
    if _lacks(given, there):
        stays = stays | old.isNotNull()
    return functions.when(stays, functions.struct(*fields))


def _lacks(given: StructType, there: StructType) -> bool:
    from pyspark.sql.types import StructType

    new = {folded(field.name): field.dataType for field in given.fields}
    for field in there.fields:
        kind = new.get(folded(field.name))
        inner = field.dataType
        if kind is None:
            return True
        if isinstance(kind, StructType) and isinstance(inner, StructType) and _lacks(kind, inner):
            return True
    return False


def new_column(
    functions: Functions,
    field: Field,
    value: str | Column | Parts,
    there: Field | None,
    place: Sequence[str] = (),
) -> Column:
    """Return the new value of a column in a statement as a Column.

    Args:
        functions: Spark's functions for the kind of session.
        field: the column after the statement.
        value: SQL text, a Column, or `Parts`.
        there: the column in the rows. None: the rows do not have it.
        place: qualifiers of the column's name, if it needs any.
    """
    if isinstance(value, Parts):
        name = field.name if there is None else there.name
        old = None if there is None else there.type
        return _put_together(functions, field.type, value, old, (*place, name))
    return as_column(functions, value)


def _put_together(
    functions: Functions, kind: Type, parts: Parts, there: Type | None, path: tuple[str, ...]
) -> Column:
    assert isinstance(kind, Struct)
    known = {f.id: f for f in there.fields} if isinstance(there, Struct) else {}
    given = {field.id: value for field, value in parts.values}
    columns = []
    for field in kind.fields:
        old = known.get(field.id)
        if field.id in given:
            column = new_column(functions, field, given[field.id], old, path)
        elif old is None:
            column = functions.lit(None)
        else:
            column = functions.col(".".join(map(quote_name, (*path, old.name))))
        columns.append(column.alias(field.name))
    return functions.struct(*columns)


def store_assigned(
    frame: DataFrame, values: Sequence[tuple[Field, Column]]
) -> tuple[tuple[Field, Column], ...]:
    """Return new values cast to the types of their columns, by ANSI store assignment.

    Args:
        frame: the DataFrame that the values are over.
        values: columns, and their values as Columns.

    Raises:
        SchemaMismatchError: a type that cannot be assigned to the column.
        InvalidPredicateError: Spark rejects the value.
    """
    from pyspark.errors import AnalysisException

    if not values:
        return ()
    with statement_errors():
        rows = frame.select(*(value.alias(field.name) for field, value in values))
        given = [field.dataType for field in rows.schema.fields]
    fields = [field for field, _ in values]
    types = spark_types(fields)
    kinds = [field.dataType for field in types.fields]
    if all(map(same_type, given, kinds)):
        return tuple(values)
    check_inner(rows, Schema(tuple(fields), max(f.id for f in fields)))
    try:
        rows.to(types).schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    functions = functions_of(frame)
    return tuple(
        (field, cast_column(functions, value, kind, there))
        for (field, value), kind, there in zip(values, given, kinds, strict=True)
    )


_CAST = re.compile(
    r'\[CAST_OVERFLOW\] (The value .*? of the type "[^"]+") cannot be cast to "(\w+)"'
)
_DECIMAL = re.compile(
    r"\[NUMERIC_VALUE_OUT_OF_RANGE[.\w]*\]\s+(?:The )?(\S+) cannot be represented as "
    r"Decimal\((\d+), (\d+)\)"
)
_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


@contextmanager
def explained_by(explain: Callable[[Exception], TablefmtError | None]) -> Iterator[None]:
    """Replace failures of Spark by the errors that `explain` returns. None: leave the failure.

    Errors of this package pass unchanged, with their causes.
    """
    try:
        yield
    except (TablefmtError, OtherVersionRead):
        raise
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        raise explained from None


def value_misfit(message: str, fields: Iterable[Field]) -> SchemaMismatchError | None:
    """Return the error for a value that does not fit its column. None for another failure.

    Args:
        message: Spark's message of the failure.
        fields: the columns with new values.
    """
    cast, decimal = _CAST.search(message), _DECIMAL.search(message)
    if cast is not None:
        value, wanted = cast[1][:1].lower() + cast[1][1:200], cast[2]
    elif decimal is not None:
        value, wanted = f"the value {decimal[1][:100]}", f"DECIMAL({decimal[2]},{decimal[3]})"
    elif any(condition in message for condition in DOES_NOT_FIT):
        value, wanted = message.splitlines()[0], ""
    else:
        return None
    names = [path for field in fields for path in _of_type(field, wanted, "")]
    where = "its column" if not names else f"column {names[0]!r}"
    if len(names) > 1:
        where = f"one of the columns {', '.join(map(repr, names))}"
    beyond = f"{value} is out of range for {wanted}" if wanted else value
    return SchemaMismatchError(
        f"a value does not fit {where}: {beyond}; nothing was written", names
    )


def _of_type(field: Field, wanted: str, prefix: str) -> list[str]:
    """Return the paths of fields with a type, given by Spark's name of the type."""
    path = f"{prefix}{field.name}"
    if isinstance(field.type, Struct):
        parts = (_of_type(each, wanted, f"{path}.") for each in field.type.fields)
        return [found for part in parts for found in part]
    return [path] if _holds(field.type, wanted) else []


def _holds(kind: Type, wanted: str) -> bool:
    if isinstance(kind, Decimal):
        return wanted == f"DECIMAL({kind.precision},{kind.scale})"
    inner = [getattr(kind, name, None) for name in ("element", "key", "value")]
    return _NAMES.get(str(kind)) == wanted or any(
        part is not None and _holds(part, wanted) for part in inner
    )
