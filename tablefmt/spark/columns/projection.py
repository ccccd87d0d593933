"""A DataFrame brought to exactly the columns and types of a table, or refused by name.

Columns go by name, ignoring case; types by Spark's own rules for INSERT (ANSI store assignment).
CHECK constraints are a filter that every row passes, or else the job fails; text of a declared
length is cut and padded on the way, or fails the same. Spark itself evaluates both, in the pass
that writes the rows. Pure but for the DataFrame's schema, which Spark is asked for once.

Spec: DAT-2, DAT-13, DAT-14.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablefmt.data.column_cast import match_names
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.check_constraints import ROW_MAX, shown_columns, violation_of
from tablefmt.expressions.ddl import default_sql, schema_from, to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import (
    SHOWN,
    Array,
    Field,
    Map,
    Schema,
    Struct,
    Type,
    length_of,
    nullable,
    physical,
    walk,
)
from tablefmt.model.schema_rules import number_fields
from tablefmt.spark.pyspark_objects import DataFrame, Functions
from tablefmt.spark.runtime.spark_messages import END
from tablefmt.spark.runtime.sql_text import parsed


def guard(metadata: Metadata) -> str | None:
    """SQL text over the columns by their names that is TRUE for every row, or fails the query.

    None without constraints. It is one expression that is not deterministic: a part of it that were
    pushed below a join would fail for rows that the join drops.

    Raises:
        UnsupportedFeatureError: a condition that Spark does not get to see (SQL-6), by name.
    """
    if not metadata.constraints:
        return None
    cases = []
    # Spark would put a setting in place of such a name, even in backticks.
    plain = [f.name for f in shown_columns(metadata.schema) if "${" not in f.name]
    names = ", ".join(map(quote_name, plain))
    row = f"to_json(struct({names}), map('ignoreNullFields', 'false'))" if names else "''"
    for name, each in metadata.constraints.items():
        marker = base64.urlsafe_b64encode(json.dumps([name, each.condition]).encode()).decode()
        shown = f"coalesce(substr({row}, 1, {ROW_MAX}), '')"
        message = f"concat('[tablefmt-check:{marker}]', {shown}, '{END}')"
        cases.append(f"WHEN {violation_of(name, metadata)} THEN raise_error({message})")
    return f"CASE {' '.join(cases)} ELSE monotonically_increasing_id() >= 0 END"


def length_sql(column: Field) -> str | None:
    """SQL text of the column by its name as its declared length wants it, or the query fails.

    None without a length. Spec: SCH-10.
    """
    if column.text is None:
        return None
    padded, most = length_of(column.text)
    name = quote_name(column.name)
    marker = base64.urlsafe_b64encode(json.dumps([column.name, column.text]).encode()).decode()
    shown = f"char_length({name}), ' ', substr({name}, 1, {SHOWN})"
    fitted = (
        f"CASE WHEN {name} IS NULL OR char_length({name}) <= {most} THEN {name} "
        f"WHEN char_length(rtrim({name})) <= {most} THEN substr({name}, 1, {most}) "
        f"ELSE raise_error(concat('[tablefmt-length:{marker}]', {shown}, '{END}')) END"
    )
    return f"rpad({fitted}, {most}, ' ')" if padded else fitted


Columns = list[dict[str, Any]]
"""An object a column: `source`, or `value` as SQL text (neither: NULL), `name`, `type` to cast to,
`metadata`.
"""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What to do to the rows, in order. All in Spark's JSON forms."""

    choose: Columns
    fit: dict[str, Any] | None = None
    """The schema to fit to by the rules of INSERT; None where the types are right already."""
    rename: Columns | None = None
    """Physical names and Parquet field ids, after `fit`: the optimizer drops those it gave."""
    lengths: Columns | None = None
    """After `fit`, before `rename`: text as its declared length wants it; None where none has one.
    """


def alignment(
    frame: DataFrame, schema: Schema, more: Sequence[Mapping[str, Any]] = (), *, named: bool = False
) -> Alignment:
    """How the rows of `frame` get the table's columns, physical names, Parquet field ids.

    NULL in a NOT NULL column is not looked for here: the footers of the written files tell.

    Args:
        frame: a DataFrame.
        schema: the table's.
        more: Spark's JSON forms of columns of `frame` that come along as they are, last.
        named: the columns are to have the table's names and types before `rename`.

    Raises:
        SchemaMismatchError: columns that the table lacks, that are doubled, or that are missing
            though NOT NULL.
    """
    along = [
        {"source": field["name"], "name": field["name"], "metadata": field["metadata"]}
        for field in more
    ]
    sources = _match(frame, schema, frozenset(field["name"] for field in more))
    files = nullable(physical(schema))
    kinds = to_spark_json(files, field_ids=True)["fields"]
    casts = bool(narrowed(frame, schema))
    lengths = _lengths(schema)
    if not casts and not named and lengths is None:
        return Alignment(
            [
                _column(source, field, kind, cast=source is None or _has_fields(field.type))
                for source, field, kind in zip(sources, schema.fields, kinds, strict=True)
            ]
            + along
        )
    logical = to_spark_json(nullable(schema), field_ids=True)
    choose = [
        _column(source, field, {**kind, "metadata": {}}, cast=source is None)
        for source, field, kind in zip(sources, schema.fields, logical["fields"], strict=True)
    ] + along
    logical["fields"] += more
    pairs = zip(schema.fields, physical(schema).fields, kinds, strict=True)
    rename = [_column(old.name, old, kind, cast=old.type != new.type) for old, new, kind in pairs]
    if lengths is not None:
        lengths += along
    return Alignment(choose, logical if casts else None, rename + along, lengths)


def _lengths(schema: Schema) -> Columns | None:
    if all(field.text is None for field in schema.fields):
        return None
    columns: Columns = []
    for field in schema.fields:
        sql = length_sql(field)
        value = {"source": field.name} if sql is None else {"value": sql}
        columns.append({"name": field.name, **value})
    return columns


def with_lengths(frame: DataFrame, schema: Schema, functions: Functions) -> DataFrame:
    """The frame with its text as the declared lengths of the table's columns want it (DAT-14)."""
    columns = {}
    for name in frame.columns:
        column = schema.find(name)
        if column is not None and column.text is not None:
            columns[name] = parsed(functions, str(length_sql(replace(column, name=name))))
    return frame.withColumns(columns) if columns else frame


def check_frame(given: Any) -> None:
    """Refuse what is no DataFrame, before anything is done with it."""
    if not hasattr(given, "sparkSession"):
        hint = " (pass the rows before the condition)" if isinstance(given, str) else ""
        raise SchemaMismatchError(
            f"{type(given).__name__} is no DataFrame{hint}: make one with "
            "spark.createDataFrame(), or write it with tablefmt.open()"
        )


def incoming(frame: DataFrame, schema: Schema) -> Schema:
    """The columns of `frame`, as far as the table may take them over.

    Those that the table has under a type which no column can have are left out: they are cast, or
    refused, when the rows are written.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has a name or a type that none can have.
    """
    return taken_over([field.jsonValue() for field in frame.schema.fields], schema)


def taken_over(fields: Sequence[Mapping[str, Any]], schema: Schema) -> Schema:
    """The same of columns in Spark's JSON form. Raises as `incoming`."""
    columns = []
    for field in fields:
        try:
            columns.append(schema_from({"type": "struct", "fields": [field]}).fields[0])
        except SchemaMismatchError:
            if schema.find(field["name"]) is None:
                raise
    return number_fields(columns) if columns else schema


def misfit(error: Any) -> SchemaMismatchError:
    """Spark's refusal to fit a column."""
    parameters = error.getMessageParameters() or {}
    name = parameters.get("name", parameters.get("columnName", "")).replace("`", "")
    return SchemaMismatchError(
        f"the data does not fit the table: {str(error).splitlines()[0]}; cast it first",
        [name] if name else [],
    )


def _column(
    source: str | None, field: Field, kind: dict[str, Any], *, cast: bool
) -> dict[str, Any]:
    column = {"name": kind["name"]}
    if source is not None:
        column["source"] = source
    elif field.default is not None:
        column["value"] = default_sql(field.default, field.type)
    if cast:
        column["type"] = kind["type"]
    if kind["metadata"]:
        column["metadata"] = kind["metadata"]
    return column


def narrowed(frame: DataFrame, schema: Schema) -> list[Field]:
    """Return the table's columns that the data has in another type: a value may not fit."""
    given = {folded(field.name): field for field in frame.schema.fields}
    casts = []
    for field in schema.fields:
        theirs = given.get(folded(field.name))
        if theirs is not None and _type_of(theirs) != str(field.type):
            casts.append(field)
    return casts


def _type_of(field: Any) -> str | None:
    """The type as text, without nullability; None for one that no table can hold."""
    try:
        return str(schema_from({"type": "struct", "fields": [field.jsonValue()]}).fields[0].type)
    except SchemaMismatchError:
        return None


def _has_fields(kind: Type) -> bool:
    """Whether there are fields inside that need their names and ids."""
    return any(isinstance(part, Struct) for part in walk(kind))


def _match(
    frame: DataFrame, schema: Schema, more: frozenset[str] = frozenset()
) -> list[str | None]:
    """For every column of the table the name of its data; None where it is its default."""
    names = frame.columns
    places = match_names(names, schema, more)
    check_inner(frame, schema)
    return [None if at is None else names[at] for at in places]


def check_inner(frame: DataFrame, schema: Schema) -> None:
    """Refuse fields of structs that the table lacks: Spark itself would drop them without a word.

    Raises:
        SchemaMismatchError: there are some.
    """
    for field in frame.schema.fields:
        target = schema.find(field.name)
        extra = _extra(field.dataType, target.type, field.name) if target else []
        if extra:
            raise SchemaMismatchError(
                f"the data has fields that the table lacks: {', '.join(map(repr, extra))}", extra
            )


def _extra(given: Any, target_type: Type, where: str) -> list[str]:
    """`given` is Spark's type, which may be one that no table can hold."""
    kind = given.typeName()
    if kind == "struct" and isinstance(target_type, Struct):
        known = {folded(f.name): f for f in target_type.fields}
        extra = []
        for field in given.fields:
            target = known.get(folded(field.name))
            inner = f"{where}.{field.name}"
            extra += [inner] if target is None else _extra(field.dataType, target.type, inner)
        return extra
    if kind == "array" and isinstance(target_type, Array):
        return _extra(given.elementType, target_type.element, f"{where}.element")
    if kind == "map" and isinstance(target_type, Map):
        return _extra(given.keyType, target_type.key, f"{where}.key") + _extra(
            given.valueType, target_type.value, f"{where}.value"
        )
    return []
