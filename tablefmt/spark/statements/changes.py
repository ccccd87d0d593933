"""Row changes of a range as a DataFrame, by whichever backend reads the files. Spec: INC-3 .. 7"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain

from tablefmt.changes.columns import CHANGE_COLUMNS, KIND
from tablefmt.changes.commit_rows import INSERT, WENT, FileChanges
from tablefmt.changes.net import lost_of, may_cancel, together
from tablefmt.changes.read import Changes
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.case_folding import folded
from tablefmt.model.given_names import OWN_PREFIX
from tablefmt.model.schema import Field, Schema
from tablefmt.spark.backends.base import ChangeRange
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.columns.conditions import as_column, bound, without_filters
from tablefmt.spark.columns.row_equality import key_sql
from tablefmt.spark.runtime.frames import Column, DataFrame, Session, functions_of
from tablefmt.spark.runtime.sql_text import parsed, selected
from tablefmt.store.protocol import Store

_TYPE, _VERSION, _TIMESTAMP = CHANGE_COLUMNS.names


def changes_frame(spark: Session, changes: Changes, where: str | Column | None = None) -> DataFrame:
    """The rows of a range, in no order.

    Args:
        spark: a session, classic or Connect.
        changes: the range, without a condition of its own.
        where: rows for which it is TRUE; filter tuples too.

    Raises:
        InvalidPredicateError: what is no condition. UnsupportedFeatureError: as `backend_for`.
    """
    view, schema = changes.view, changes.table_schema
    read = apart(schema)
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


def apart(schema: Schema) -> Schema:
    """The columns, with other names for those that are called like the change columns."""

    def named(place: int, field: Field) -> Field:
        clash = folded(field.name) in CHANGE_COLUMNS.names
        return replace(field, name=f"{OWN_PREFIX}column_{place}") if clash else field

    return replace(schema, fields=tuple(named(*each) for each in enumerate(schema.fields)))


def rows_of_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Rows with their change columns, in no order; those that cancel are left out (INC-6).

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
    """The rows of a run without those that cancel."""
    functions = functions_of(spark)
    fields = schema.fields
    lost = lost_of(run)
    keys = [
        parsed(functions, key_sql(field)).alias(f"k{at}")
        for at, field in enumerate(fields)
        if field.id not in lost
    ]
    went = f"{_TYPE} IN ({', '.join(repr(kind) for kind in WENT)})"
    named = (f"{quote_name(f.name)} AS c{at}" for at, f in enumerate(fields))
    row = f"struct({', '.join(named)})"
    if lost:
        # Rows that are equal without these are none the less each their own.
        rest = {"went": f"collect_list(if({went}, {row}, NULL))"}
        rest["came"] = f"collect_list(if({went}, NULL, {row}))"
        chosen = "slice(if(n < 0, went, came), 1, int(abs(n)))"
    else:
        rest, chosen = {"r": f"first({row})"}, "array_repeat(r, int(abs(n)))"
    sums = {"n": f"sum(if({went}, -1L, 1L))", **rest}
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
