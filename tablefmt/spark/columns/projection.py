"""Convert a DataFrame to exactly the columns and types of a table, or reject it.

Columns match by name, ignoring case. Types follow Spark's rules for INSERT (ANSI store assignment).
CHECK constraints become a filter that passes every row or fails the job. Text of a declared length
is cut or padded, or fails the job. Spark evaluates both in the pass that writes the rows. The
module is pure, except that it asks Spark for the DataFrame's schema.

Spec: DAT-2, DAT-13, DAT-14.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tablefmt.data.column_cast import match_names
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.check_constraints import ROW_MAX, shown_columns, violation_of
from tablefmt.expressions.ddl import default_sql, schema_from, to_spark_json
from tablefmt.expressions.generated_columns import (
    check_conditions,
    engine_text,
    generated_columns,
    is_typed,
)
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.identity_columns import identity_columns
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

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException


Columns = list[dict[str, Any]]
"""One object per column: `source`, or `value` as SQL text (neither: NULL), `name`, `type` to cast
to, `metadata`.
"""


def guard(metadata: Metadata) -> str | None:
    """Return SQL text over columns by name that is TRUE for every row, or fails the query.

    None without CHECK constraints. Generated columns are checked by `generation`. The text is one
    nondeterministic expression, so Spark does not push parts of it below a join. There, they would
    fail for rows that the join drops.

    Raises:
        UnsupportedFeatureError: a condition that cannot be passed to Spark (SQL-6), by name.
    """
    return _guard(metadata, check_conditions(metadata))


def _guard(metadata: Metadata, conditions: Mapping[str, str]) -> str | None:
    if not conditions:
        return None
    cases = []
    # Spark would replace a variable in such a name, even in backticks.
    plain = [f.name for f in shown_columns(metadata.schema) if "${" not in f.name]
    names = ", ".join(map(quote_name, plain))
    row = f"to_json(struct({names}), map('ignoreNullFields', 'false'))" if names else "''"
    for name, condition in conditions.items():
        marker = base64.urlsafe_b64encode(json.dumps([name, condition]).encode()).decode()
        shown = f"coalesce(substr({row}, 1, {ROW_MAX}), '')"
        message = f"concat('[tablefmt-check:{marker}]', {shown}, '{END}')"
        cases.append(f"WHEN {violation_of(name, metadata)} THEN raise_error({message})")
    return f"CASE {' '.join(cases)} ELSE monotonically_increasing_id() >= 0 END"


def missing_columns(frame: DataFrame, metadata: Metadata) -> frozenset[int]:
    """Return the generated columns and identity columns that the rows lack, by id."""
    given = frozenset(map(folded, frame.columns))
    filled = [each.field for each in generated_columns(metadata)]
    filled += [each.field for each in identity_columns(metadata)]
    return frozenset(field.id for field in filled if folded(field.name) not in given)


@dataclass(frozen=True, slots=True)
class Generation:
    """The step that computes generated columns, and checks those that were given. In UTC."""

    columns: Columns
    check: str | None


def generation(
    frame: DataFrame, metadata: Metadata, more: Sequence[Mapping[str, Any]] = ()
) -> Generation | None:
    """Return the step for rows with the table's columns by name; None without generated columns.

    Args:
        frame: the rows as given, which may lack generated columns.
        metadata: of the table.
        more: as in `alignment`.

    Raises:
        UnsupportedFeatureError: an expression that cannot be passed to Spark (SQL-6), by name.
    """
    generated = {each.field.id: each for each in generated_columns(metadata)}
    if not generated:
        return None
    missing = missing_columns(frame, metadata)
    kinds = to_spark_json(nullable(metadata.schema))["fields"]
    columns: Columns = []
    for field, kind in zip(metadata.schema.fields, kinds, strict=True):
        if field.id in missing:
            text = engine_text(generated[field.id], metadata)
            columns.append({"name": field.name, "value": text, "type": kind["type"]})
        else:
            columns.append({"name": field.name, "source": field.name})
    columns += [{"name": field["name"], "source": field["name"]} for field in more]
    checked = {
        each.constraint: metadata.constraints[each.constraint].condition
        for number, each in generated.items()
        if number not in missing or not is_typed(each, metadata)
    }
    return Generation(columns, _guard(metadata, checked))


def length_sql(column: Field) -> str | None:
    """Return SQL text of a column that fits its declared length, or fails the query.

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


@dataclass(frozen=True, slots=True)
class Alignment:
    """Steps that convert the rows, in Spark's JSON forms. Order: choose, fit, lengths, rename."""

    choose: Columns
    fit: dict[str, Any] | None = None
    """Schema to cast to by the rules of INSERT. None if the types are right already."""
    rename: Columns | None = None
    """Physical names and Parquet field ids. After `fit`: the optimizer drops those set before."""
    lengths: Columns | None = None
    """Text cut and padded to its declared length. None if no column has one."""


def alignment(
    frame: DataFrame,
    schema: Schema,
    more: Sequence[Mapping[str, Any]] = (),
    *,
    named: bool = False,
    filled: Collection[int] = (),
) -> Alignment:
    """Return the steps that give the rows the table's columns, physical names and Parquet ids.

    NULL in a NOT NULL column is not checked here: the footers of the written files show it.

    Args:
        frame: a DataFrame.
        schema: the table's schema.
        more: Spark's JSON forms of columns of `frame` that are kept unchanged, as the last ones.
        named: True requires the table's names and types before `rename`.
        filled: ids of columns that may be missing, because a later step computes them.

    Raises:
        SchemaMismatchError: columns that the table lacks, that occur twice, or that are missing
            though NOT NULL.
    """
    along = [
        {"source": field["name"], "name": field["name"], "metadata": field["metadata"]}
        for field in more
    ]
    sources = _match(frame, schema, frozenset(field["name"] for field in more), filled)
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
    """Return the frame with text cut and padded to the columns' declared lengths (DAT-14)."""
    columns = {}
    for name in frame.columns:
        column = schema.find(name)
        if column is not None and column.text is not None:
            columns[name] = parsed(functions, str(length_sql(replace(column, name=name))))
    return frame.withColumns(columns) if columns else frame


def check_frame(given: Any) -> None:
    """Check that the argument is a DataFrame. Raises SchemaMismatchError."""
    if not hasattr(given, "sparkSession"):
        hint = " (pass the rows before the condition)" if isinstance(given, str) else ""
        raise SchemaMismatchError(
            f"expected a DataFrame, got {type(given).__name__}{hint}: make one with "
            "spark.createDataFrame(), or write the data with tablefmt.open()"
        )


def incoming(frame: DataFrame, schema: Schema) -> Schema:
    """Return the columns of `frame` that the table could add.

    A column of the table is left out if its type in `frame` is not supported by tables. It is cast
    or rejected when the rows are written.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5: a new column has an invalid name or type.
    """
    return incoming_of([field.jsonValue() for field in frame.schema.fields], schema)


def incoming_of(fields: Sequence[Mapping[str, Any]], schema: Schema) -> Schema:
    """Return `incoming` for columns in Spark's JSON form. Raises as `incoming`."""
    columns = []
    for field in fields:
        try:
            columns.append(schema_from({"type": "struct", "fields": [field]}).fields[0])
        except SchemaMismatchError:
            if schema.find(field["name"]) is None:
                raise
    return number_fields(columns) if columns else schema


def misfit(error: AnalysisException) -> SchemaMismatchError:
    """Return the error for a type that Spark cannot assign to a column."""
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
    """Return the table's columns that have another type in the data, so that values may not fit."""
    given = {folded(field.name): field for field in frame.schema.fields}
    casts = []
    for field in schema.fields:
        theirs = given.get(folded(field.name))
        if theirs is not None and _type_of(theirs) != str(field.type):
            casts.append(field)
    return casts


def _type_of(field: Any) -> str | None:
    """Return the type as text, without nullability. None for a type that tables do not support."""
    try:
        return str(schema_from({"type": "struct", "fields": [field.jsonValue()]}).fields[0].type)
    except SchemaMismatchError:
        return None


def _has_fields(kind: Type) -> bool:
    """Return whether the type contains struct fields, which need their names and ids."""
    return any(isinstance(part, Struct) for part in walk(kind))


def _match(
    frame: DataFrame, schema: Schema, more: frozenset[str], filled: Collection[int]
) -> list[str | None]:
    """Return the name in the data of every column of the table. None for a column's default."""
    names = frame.columns
    places = match_names(names, schema, more, filled)
    check_inner(frame, schema)
    return [None if at is None else names[at] for at in places]


def check_inner(frame: DataFrame, schema: Schema) -> None:
    """Check that the data has no struct fields that the table lacks. Spark would drop them.

    Raises:
        SchemaMismatchError: it has some.
    """
    for field in frame.schema.fields:
        target = schema.find(field.name)
        extra = _extra(field.dataType, target.type, field.name) if target else []
        if extra:
            raise SchemaMismatchError(
                f"the data has fields that the table lacks: {', '.join(map(repr, extra))}; drop "
                "these fields, or add them to the table",
                extra,
            )


def _extra(given: Any, target_type: Type, where: str) -> list[str]:
    """Return the paths of extra fields. `given` is Spark's type, perhaps unsupported by tables."""
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
