"""Read a version, or the row changes of a range, as a DataFrame, for every execution backend.

To cancel changes of equal rows, the module groups rows by keys. Spark's grouping treats -0.0 as 0.0
and cannot group maps and variants. So values of these types are converted to types that group by
exact equality. Spec: INC-3 .. 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any

from tablefmt.changes.change_reader import Changes
from tablefmt.changes.change_schema import CHANGE_COLUMNS, KIND
from tablefmt.changes.changed_rows import lost_of, may_cancel, together
from tablefmt.changes.commit_rows import INSERT, WENT, FileChanges
from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.check_constraints import shown_columns
from tablefmt.expressions.filter_tuples import Filters
from tablefmt.expressions.literals import in_session
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Array, Field, Map, Primitive, Schema, Struct, Type, is_float, walk
from tablefmt.model.schema_rules import OWN_PREFIX
from tablefmt.model.times import Time
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.backends.backend_choice import backend_for
from tablefmt.spark.backends.backend_protocol import ChangeRange
from tablefmt.spark.columns.row_conditions import as_column, bound, session_zone, without_filters
from tablefmt.spark.pyspark_objects import Column, DataFrame, Session, functions_of
from tablefmt.spark.runtime.ansi import under_ansi
from tablefmt.spark.runtime.sql_text import parsed, selected
from tablefmt.store.object_store import Store

_PLAIN = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double", "string"})


def shown_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return a few rows as dicts by column name.

    Values that Python cannot represent, such as dates after the year 9999, become text.

    Raises: Spark's own errors.
    """
    try:
        return [row.asDict() for row in frame.collect()]
    except (OverflowError, ValueError):
        pass
    functions = functions_of(frame)
    columns = []
    for field in frame.schema.fields:
        column = functions.col(quote_name(field.name))
        plain = field.dataType.typeName() in _PLAIN
        columns.append(column if plain else column.cast("string").alias(field.name))
    return [row.asDict() for row in frame.select(*columns).collect()]


def read_at(
    spark: Session, context: TableContext, version: int | str | None, timestamp: Time | None
) -> DataFrame:
    """Return a version of an open table. Default: the newest known version. Raises as `read`."""
    if timestamp is not None:
        timestamp = in_session(timestamp, session_zone(spark))
    snapshot = context.view.snapshot(context.resolve_point(version, timestamp))
    asked = version is not None or timestamp is not None
    return backend_for(spark, context.store).read_snapshot(snapshot, asked=asked)


def find_row(
    spark: Session, context: TableContext, txn: TransactionSnapshot, where: str
) -> Mapping[str, Any] | None:
    """Return a live row of the fixed version for which SQL text is TRUE, found by Spark.

    Raises:
        InvalidPredicateError: Spark cannot evaluate the text as a condition.
    """
    from pyspark.errors import AnalysisException, ParseException

    names = [quote_name(f.name) for f in shown_columns(txn.metadata.schema)]
    try:
        with under_ansi(spark) as ansi:
            rows = read_at(ansi, context, txn.version, None)
            chosen = rows.where(parsed(functions_of(rows), where))
            rows_found = shown_rows(chosen.select(*names).limit(1))
    except (AnalysisException, ParseException) as error:
        first = str(error).splitlines()[0]
        raise InvalidPredicateError(f"Spark rejects the condition: {first}") from None
    return rows_found[0] if rows_found else None


def key_sql(field: Field) -> str:
    """Return an expression that is equal for two rows exactly if their values in a column are."""
    return _key(quote_name(field.name), field.type, 0)


def _key(value: str, kind: Type, depth: int) -> str:
    if not any(map(_is_special, walk(kind))):
        return value
    if isinstance(kind, Struct):
        parts = (_key(f"{value}.{quote_name(f.name)}", f.type, depth) for f in kind.fields)
        return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    each = f"e{depth}"
    if isinstance(kind, Array):
        return f"transform({value}, {each} -> {_key(each, kind.element, depth + 1)})"
    if isinstance(kind, Map):
        key, item = (
            _key(f"{each}.{part}", inner, depth + 1)
            for part, inner in (("key", kind.key), ("value", kind.value))
        )
        return f"transform(map_entries({value}), {each} -> struct({key}, {item}))"
    if is_float(kind):
        return f"string({value})"
    return f"concat(schema_of_variant({value}), ' ', to_json({value}))"


def _is_special(kind: Type) -> bool:
    return is_float(kind) or isinstance(kind, Map) or kind == Primitive("variant")


_TYPE, _VERSION, _TIMESTAMP = CHANGE_COLUMNS.names


def changes_frame(
    spark: Session, changes: Changes, where: str | Filters | Column | None = None
) -> DataFrame:
    """Return the row changes of a range, in no order.

    Args:
        spark: a session, classic or Connect.
        changes: the range, without a condition of its own.
        where: a condition that returned rows must fulfil: SQL text, a Column, or filter tuples.

    Raises:
        InvalidPredicateError: an invalid condition. UnsupportedFeatureError: as `backend_for`.
    """
    view, schema = changes.view, changes.table_schema
    read = without_clashes(schema)
    of = ChangeRange(view.head.table, changes.first_version, changes.last_version, read)
    frame = rows_of_changes(spark, view.store, of, changes.file_changes)
    marks = {name: name for name in CHANGE_COLUMNS.names}
    if read.names != schema.names:
        marks = {name: f"{OWN_PREFIX}{name}" for name in marks}
        names = zip(map(quote_name, read.names), map(quote_name, schema.names), strict=True)
        both = chain(names, marks.items())
        frame = selected(frame, *(f"{old} AS {new}" for old, new in both))
    if where is not None:
        condition = as_column(functions_of(spark), without_filters(where, changes.table_schema))
        frame = frame.where(bound(frame, condition))
    if changes.content == "append":
        frame = frame.where(f"{marks[_TYPE]} = '{INSERT}'")
    marks[KIND] = marks[_TYPE]
    columns = [quote_name(field.name) for field in changes.columns]
    return selected(frame, *columns, *(f"{marks[m]} AS {m}" for m in changes.answer.marks.names))


def without_clashes(schema: Schema) -> Schema:
    """Return the columns. Columns with the name of a change column get another name."""

    def named(place: int, field: Field) -> Field:
        clash = folded(field.name) in CHANGE_COLUMNS.names
        return replace(field, name=f"{OWN_PREFIX}column_{place}") if clash else field

    return replace(schema, fields=tuple(named(*each) for each in enumerate(schema.fields)))


def rows_of_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Return rows with their change columns, in no order, without rows that cancel (INC-6).

    Raises:
        UnsupportedFeatureError: as `backend_for`.
    """
    backend = backend_for(spark, store)
    runs = list(together(files))
    plain = [change for run in runs if not may_cancel(run) for change in run]
    cancelling = [run for run in runs if may_cancel(run)]
    frames = [] if cancelling and not plain else [backend.read_changes(of, plain)]
    for run in cancelling:
        frames.append(_difference(spark, backend.read_changes(of, run), of.schema, run))
    return reduce(lambda whole, part: whole.unionAll(part), frames)


def _difference(
    spark: Session, rows: DataFrame, schema: Schema, run: Sequence[FileChanges]
) -> DataFrame:
    """Return the rows of a run without the rows that cancel."""
    functions = functions_of(spark)
    fields = schema.fields
    lost = lost_of(run)
    keys = [
        parsed(functions, key_sql(field)).alias(f"k{at}")
        for at, field in enumerate(fields)
        if field.id not in lost
    ]
    removed = f"{_TYPE} IN ({', '.join(repr(kind) for kind in WENT)})"
    named = (f"{quote_name(f.name)} AS c{at}" for at, f in enumerate(fields))
    row = f"struct({', '.join(named)})"
    if lost:
        # Rows that are equal in the other columns may differ in the lost ones: keep each row.
        rest = {"removed": f"collect_list(if({removed}, {row}, NULL))"}
        rest["added"] = f"collect_list(if({removed}, NULL, {row}))"
        chosen = "slice(if(n < 0, removed, added), 1, int(abs(n)))"
    else:
        rest, chosen = {"r": f"first({row})"}, "array_repeat(r, int(abs(n)))"
    sums = {"n": f"sum(if({removed}, -1L, 1L))", **rest}
    left = rows.groupBy(*keys).agg(
        *(parsed(functions, sql).alias(name) for name, sql in sums.items())
    )
    each = selected(left.where("n <> 0"), "n", f"explode({chosen}) AS r")
    marks = {
        _TYPE: "if(n < 0, 'delete', 'insert')",
        _VERSION: f"{run[0].version}L",
        _TIMESTAMP: f"timestamp_micros({run[0].timestamp}L)",
    }
    values = [f"r.c{at} AS {quote_name(field.name)}" for at, field in enumerate(fields)]
    return selected(each, *values, *(f"{sql} AS {name}" for name, sql in marks.items()))
