"""A DataFrame brought to exactly the columns and types of a table, or refused by name.

Columns go by name, ignoring case; types by Spark's own rules for INSERT (ANSI store assignment).
Spec: DAT-2.
"""

from __future__ import annotations

from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.ddl import schema_from, to_spark_json
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Array, Map, Schema, Struct, Type
from tablefmt.model.shapes import nullable, physical


def align(frame: Any, schema: Schema) -> Any:
    """The rows of `frame` with the table's columns, physical names, Parquet field ids.

    NULL in a NOT NULL column is not looked for here: the footers of the written files tell.

    Raises:
        SchemaMismatchError: columns that the table lacks, that are doubled, that are missing
            though NOT NULL, or of a type that does not fit.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    sources = _match(frame, schema)
    wanted = StructType.fromJson(to_spark_json(nullable(schema), field_ids=True))
    columns = []
    for source, target in zip(sources, wanted, strict=True):
        if source is None:
            column = functions.lit(None).cast(target.dataType)
        else:
            column = functions.col(quote_name(source))
        columns.append(column.alias(target.name))
    try:
        aligned = frame.select(*columns).to(wanted)
    except AnalysisException as error:
        parameters = error.getMessageParameters() or {}
        name = parameters.get("name", parameters.get("columnName", "")).replace("`", "")
        raise SchemaMismatchError(
            f"the data does not fit the table: {str(error).splitlines()[0]}; cast it first",
            [name] if name else [],
        ) from None
    return _renamed(aligned, schema)


def narrowed(frame: Any, aligned: Any) -> list[str]:
    """Columns of a DataFrame whose values `align` casts, so that one may be found not to fit."""
    given = {f.name.casefold(): f.dataType.simpleString() for f in frame.schema.fields}
    wanted = {f.name: f.dataType.simpleString() for f in aligned.schema.fields}
    return [name for name, kind in wanted.items() if given.get(name.casefold(), kind) != kind]


def _match(frame: Any, schema: Schema) -> list[str | None]:
    """For every column of the table the name of its data; None where it is all NULL."""
    given: dict[str, str] = {}
    for name in frame.columns:
        twin = given.setdefault(name.casefold(), name)
        if twin is not name:
            raise SchemaMismatchError(
                f"the data has columns {twin!r} and {name!r}, the same but for case; drop one",
                [twin, name],
            )
    extra = [name for name in frame.columns if schema.find(name) is None]
    if extra:
        raise SchemaMismatchError(
            f"the data has columns that the table lacks: {', '.join(map(repr, extra))}; "
            f"the table has {', '.join(map(repr, schema.names))}",
            extra,
        )
    sources = [given.get(f.name.casefold()) for f in schema.fields]
    missing = [
        f.name
        for f, source in zip(schema.fields, sources, strict=True)
        if source is None and not f.nullable
    ]
    if missing:
        raise SchemaMismatchError(
            f"the data lacks columns that are NOT NULL: {', '.join(map(repr, missing))}", missing
        )
    _check_inner(frame, schema)
    return sources


def _check_inner(frame: Any, schema: Schema) -> None:
    """Fields of structs that the table lacks: Spark itself would drop them without a word."""
    nested = [f for f in frame.schema.fields if not _is_atomic(f)]
    if not nested:
        return
    theirs = schema_from({"type": "struct", "fields": [f.jsonValue() for f in nested]})
    for column in theirs.fields:
        target = schema.find(column.name)
        extra = _extra(column.type, target.type, column.name) if target else []
        if extra:
            raise SchemaMismatchError(
                f"the data has fields that the table lacks: {', '.join(map(repr, extra))}", extra
            )


def _is_atomic(field: Any) -> bool:
    return isinstance(field.dataType.jsonValue(), str)


def _extra(given: Type, wanted: Type, where: str) -> list[str]:
    if isinstance(given, Struct) and isinstance(wanted, Struct):
        known = {f.name.casefold(): f for f in wanted.fields}
        found = []
        for field in given.fields:
            target = known.get(field.name.casefold())
            inner = f"{where}.{field.name}"
            found += [inner] if target is None else _extra(field.type, target.type, inner)
        return found
    if isinstance(given, Array) and isinstance(wanted, Array):
        return _extra(given.element, wanted.element, f"{where}.element")
    if isinstance(given, Map) and isinstance(wanted, Map):
        return _extra(given.key, wanted.key, f"{where}.key") + _extra(
            given.value, wanted.value, f"{where}.value"
        )
    return []


def _renamed(aligned: Any, schema: Schema) -> Any:
    """Physical names, and field ids: the optimizer drops those that `to` gave to plain columns."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    files = physical(schema)
    types = StructType.fromJson(to_spark_json(nullable(files), field_ids=True))
    columns = []
    for before, after, target in zip(schema.fields, files.fields, types, strict=True):
        column = functions.col(quote_name(before.name))
        if before.type != after.type:
            column = column.cast(target.dataType)
        columns.append(column.alias(after.name, metadata=target.metadata))
    return aligned.select(*columns)
