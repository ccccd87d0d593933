"""Overwrites that replace the rows which new rows, or a condition, select, each as one MERGE.

`replaceUsing` and `replaceOn` delete the rows that match a new row, and insert every new row. A
MERGE does either to a source row. So each new row is in the source twice, with a mark: once to
delete its matches, and once to be inserted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tablefmt.errors import InvalidArgumentError, SchemaMismatchError
from tablefmt.expressions.merge_statement import MergeStatement
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.session.commit_options import CommitKeywords
from tablefmt.session.commit_result import Commit
from tablefmt.session.table_context import TableContext
from tablefmt.spark.pyspark_objects import DataFrame, functions_of, source_name
from tablefmt.spark.runtime.failures import statement_errors
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.spark.statements.merge_clauses import merge_of
from tablefmt.spark.statements.spark_merge import merge_rows

MARK = "_tablefmt_deletes"
"""Column of the source: TRUE in the copy of a row that deletes its matches."""


def replace_unchecked(
    context: TableContext, df: DataFrame, options: WriteOptions, where: str
) -> Commit:
    """Replace the rows of a condition by rows that need not match it. Raises as `write`."""
    merge = _merge(context, df, "FALSE", options, "s", "t")
    merge = merge.when_not_matched_by_source_delete(where)
    return merge.when_not_matched_insert_all().execute()


def replace_matching(context: TableContext, df: DataFrame, options: WriteOptions) -> Commit:
    """Replace the rows that match a new row, by replaceUsing or replaceOn. Raises as `write`."""
    source, target = source_name(df) or "s", options.target_alias or "t"
    if options.replace_on is None:
        source, target = "s", "t"
        table = context.view.head.metadata.schema.names
        for name in options.replace_using:
            _check_column(name, table, "the table")
            _check_column(name, df.columns, "the new rows")
    elif folded(source) == folded(target):
        raise InvalidArgumentError(
            f"replaceOn: the table and the new rows are both named {source!r}; give the table "
            "another name with the option targetAlias"
        )
    mark = f"{quote_name(source)}.{quote_name(MARK)}"
    matches = options.replace_on or " AND ".join(
        f"{quote_name(target)}.{quote_name(name)} = {quote_name(source)}.{quote_name(name)}"
        for name in options.replace_using
    )
    values = {name: f"{quote_name(source)}.{quote_name(name)}" for name in df.columns}
    functions = functions_of(df)
    both = functions.explode(functions.array(functions.lit(True), functions.lit(False)))
    marked = df.withColumn(MARK, both)
    merge = _merge(context, marked, f"{mark} AND ({matches})", options, source, target)
    merge = merge.when_matched_delete()
    return merge.when_not_matched_insert(values, f"NOT {mark}").execute()


def _merge(
    context: TableContext,
    rows: DataFrame,
    on: str,
    options: WriteOptions,
    source: str,
    target: str,
) -> MergeBuilder[Commit]:
    """Return a MERGE without clauses, with the options of an overwrite."""
    spark = rows.sparkSession
    bare = replace(
        options, replace_where=None, replace_using=(), replace_on=None, target_alias=None
    )

    def run(asked: MergeStatement, commit: CommitKeywords) -> Commit:
        with statement_errors():
            return merge_rows(context, spark, merge_of(spark, asked, rows), bare)

    return begin_merge(rows, on, source, target, options.merge_schema, run, lambda asked: "")


def _check_column(name: str, columns: Iterable[str], place: str) -> None:
    """Check that a column of replaceUsing exists. Raises SchemaMismatchError."""
    names = list(columns)
    if folded(name) not in map(folded, names):
        raise SchemaMismatchError(
            f"replaceUsing: {place} has no column {name!r}; its columns are {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )
