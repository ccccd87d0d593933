"""`tablefmt.spark.pipe`: what is new in one table goes into another, by Spark.

Nothing of the rows comes to the driver. Spec: PIP-1 .. PIP-7 (spec/pipes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.changes.change_schema import KIND, KINDS
from tablefmt.changes.commit_rows import INSERT
from tablefmt.changes.feed_plan import known_content
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.model.schema import nullable
from tablefmt.operations.create import Partitions, check_partitioning, definition
from tablefmt.pipes.keyed_merge import (
    DELETED,
    SHOWN,
    check_comparable,
    check_copied,
    merge_by,
    named,
    several_rows,
)
from tablefmt.pipes.pipe import PipeRun, checked_keys, known_name, next_of, nothing_new, target_of
from tablefmt.pipes.pipe_batch import (
    changed_rows,
    check_transform,
    first_copied,
    takes_all,
    takes_both_ends,
)
from tablefmt.session.commit_result import Commit
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import ReadableTable
from tablefmt.spark.backends.backend_protocol import SOURCE
from tablefmt.spark.columns.projection import check_frame
from tablefmt.spark.columns.row_conditions import as_column, bound, without_filters
from tablefmt.spark.entry.dataframe_io import append_rows, write_first
from tablefmt.spark.entry.spark_table import SparkTable
from tablefmt.spark.pyspark_objects import Column, DataFrame, Session, functions_of
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import statement_errors
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.spark.spark_options import WriteKeywords, WriteOptions, parse_options
from tablefmt.spark.statements.execution import open_context, open_if_there
from tablefmt.spark.statements.frame_reads import changes_frame, read_at
from tablefmt.spark.statements.merge_clauses import merge_of
from tablefmt.spark.statements.source_rows import again_if_lost, stored_once
from tablefmt.spark.statements.spark_merge import merge_once
from tablefmt.store.location import Uri, open_store
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FLOATING = ("float", "double")

Transform = Callable[[DataFrame], DataFrame]

Place = SparkTable | ReadableTable | Uri
"""A table, or where one is."""


@dataclass(frozen=True, slots=True)
class SparkPipe:
    """What is to be taken of which table. `into` takes it."""

    spark: Session
    source: TableContext
    content: str
    transform: Transform | None
    where: str | Column | None
    name: str

    def into(
        self,
        target: Place,
        *,
        keys: str | Sequence[str] | None = None,
        partition_by: Partitions = None,
        **options: Unpack[WriteKeywords],
    ) -> PipeRun:
        """Take all that is new since the last run, in one commit of the target (PIP-2).

        Arguments and errors as of `tablefmt.pipes.pipe.Pipe.into`; `options` are those of
        `tablefmt.spark.write`, without an application. Spark's own exceptions if a query fails.
        """
        parsed = parse_options(options)
        merges = parsed.merge_schema
        columns = checked_keys(keys, self.content, parsed.commit, merge_schema=merges)
        if parsed.replace_where or parsed.overwrite_schema or parsed.dynamic_partitions:
            raise InvalidArgumentError(
                "a pipe appends or merges; it takes no options of overwriting"
            )
        failures.install()
        place = target.table if isinstance(target, SparkTable) else target
        store, context = target_of(place, parsed.storage_options, open_if_there)
        if context is not None:
            check_partitioning(context.view.head.metadata, partition_by)
        derived = next_of(self.source, store, context, self.name)
        if derived is None:
            assert context is not None
            return nothing_new(self.source, context)
        first = first_copied(self.source, derived)
        parsed = replace(parsed, commit=replace(parsed.commit, derived_from=derived))
        run = _Run(self, store, context, parsed, derived, partition_by)
        with statement_errors():
            done = run.append() if columns is None else run.merge(columns)
        went = done.metrics.get("numSourceRows", done.metrics.get("numOutputRows", 0))
        return PipeRun(first, derived.to, went, done)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run that has something to take."""

    pipe: SparkPipe
    store: Store
    target: TableContext | None
    options: WriteOptions
    derived: DerivedFrom
    partition_by: Partitions

    def append(self) -> Commit:
        """Rows that are new, or what happened to rows."""
        rows = self._made(self._taken(self.pipe.content))
        if self.target is None:
            return self._make(rows)
        # The newest version was looked for just now; what came since is judged at the commit.
        return append_rows(self.target, rows, self.options, refresh=False)

    def merge(self, keys: Sequence[str]) -> Commit:
        """The net changes, by keys."""
        pipe = self.pipe
        chosen = pipe.where is not None or pipe.transform is not None
        whole = takes_both_ends(pipe.source, self.target, self.derived, keys, chosen=chosen)
        rows = self._taken("net", KINDS, whole=whole)
        if KIND in rows.columns:
            plain = [name for name in rows.columns if name != KIND]
            new, deleted = (
                rows.where(f"{KIND} {sign} '{INSERT}'").select(*map(quote_name, plain))
                for sign in ("=", "<>")
            )
        else:
            new, deleted = rows, None
        news = self._made(new)
        names = named(keys, news.columns)
        check_comparable(schema_from(news.select(*map(quote_name, names)).schema).fields)
        if self.target is not None:
            there = self.target.view.head.metadata.schema.names
            check_copied(news.columns, there, self.store.uri)
        goes = None if deleted is None else self._made(deleted).select(*map(quote_name, names))
        return again_if_lost("pipe", lambda: self._merged(news, goes, names))

    def _merged(self, news: DataFrame, goes: DataFrame | None, names: Sequence[str]) -> Commit:
        """The commit of rows that come, and of the keys of rows that go.

        Both are worked out once, before they are used: a function may give others each time.
        """
        chosen = [quote_name(name) for name in names]
        origin = news if goes is None else news.select(*chosen).union(goes)
        came = stored_once(news, "pipe").drop(SOURCE)
        went = None if goes is None else stored_once(goes, "pipe").drop(SOURCE)
        _check_keys(came, went, names)
        if self.target is None:
            return self._make(came)
        source = came.withColumn(DELETED, functions_of(came).lit(False))
        if went is not None:
            if self.derived.start is not None:
                self._check_second(came, went, names)
            lost = went.join(came.select(*chosen), list(names), "left_anti")
            lost = lost.distinct().withColumn(DELETED, functions_of(came).lit(True))
            source = source.unionByName(lost, allowMissingColumns=True)
        spark = self.pipe.spark
        signed = [n for n in names if came.schema[n].dataType.typeName() in _FLOATING]
        statement = merge_of(spark, merge_by(names, came.columns, signed), source, origin)
        return merge_once(self.target, spark, statement, self.options)

    def _check_second(self, came: DataFrame, went: DataFrame, names: Sequence[str]) -> None:
        """Refuse second rows of keys, whose first one came in an earlier run (PIP-5).

        As of `tablefmt.pipes.pipe`: the source is read only if the target holds such keys.

        Raises:
            MergeCardinalityError: it names the keys.
        """
        pipe, target = self.pipe, self.target
        assert target is not None
        chosen = [quote_name(name) for name in names]
        rows = read_at(pipe.spark, target, target.view.head.version, None).select(*chosen)
        fresh = came.select(*chosen).join(went, list(names), "left_anti")
        # Worked out again, it is the same: of stored rows and of a version.
        fresh = fresh.join(rows.toDF(*names), list(names), "left_semi").persist()
        try:
            if not fresh.limit(1).count():
                return
            every = self._made(self._taken("append", first=True)).select(*chosen)
            several = every.join(fresh, list(names), "left_semi").groupBy(*chosen).count()
            twice = several.where("count > 1").select(*chosen).limit(SHOWN).collect()
        finally:
            fresh.unpersist()
        if twice:
            raise several_rows(names, [row.asDict() for row in twice])

    def _taken(
        self,
        content: str,
        marks: pa.Schema | None = None,
        *,
        whole: bool = False,
        first: bool = False,
    ) -> DataFrame:
        """What is new, as rows of the source; of a `first` run, which takes all. Other arguments as
        of `new_rows`."""
        pipe = self.pipe
        derived = replace(self.derived, start=None) if first else self.derived
        functions = functions_of(pipe.spark)
        if takes_all(derived, content, marks):
            schema = pipe.source.view.metadata_at(derived.to).schema
            rows = read_at(pipe.spark, pipe.source, derived.to, None)
            if pipe.where is None:
                return rows
            return rows.where(
                bound(rows, as_column(functions, without_filters(pipe.where, schema)))
            )
        changes = changed_rows(pipe.source, derived, content, None, marks, whole=whole)
        return changes_frame(pipe.spark, changes, pipe.where)

    def _made(self, rows: DataFrame) -> DataFrame:
        """What the caller's function makes of rows. Raises SchemaMismatchError."""
        if self.pipe.transform is None:
            return rows
        made = self.pipe.transform(rows)
        if made is None:
            raise SchemaMismatchError("the transform gave None; it is to give a DataFrame")
        check_frame(made)
        return made

    def _make(self, rows: DataFrame) -> Commit:
        metadata = definition(nullable(schema_from(rows.schema)), self.partition_by or (), {})
        return write_first(rows, self.store, metadata, self.options, exist_ok=True)[1]


def _check_keys(came: DataFrame, went: DataFrame | None, keys: Sequence[str]) -> None:
    """Refuse keys that tell nothing apart (PIP-5). At most SHOWN rows come to the driver.

    Raises:
        ConstraintViolationError: one is NULL. MergeCardinalityError: two rows that come have one.
    """
    chosen = [quote_name(key) for key in keys]
    absent = " OR ".join(f"{key} IS NULL" for key in chosen)
    every = came.select(*chosen) if went is None else came.select(*chosen).union(went)
    if every.where(parsed(functions_of(every), absent)).limit(1).count():
        raise ConstraintViolationError(
            f"a key, {', '.join(keys)}, is NULL: a row without a key cannot be told from others. "
            "Leave such rows out with `where` or `transform`"
        )
    several = came.groupBy(*chosen).count().where("count > 1")
    twice = [row.asDict() for row in several.select(*chosen).limit(SHOWN).collect()]
    if twice:
        raise MergeCardinalityError(
            f"several rows that are new have one key, {', '.join(keys)}: the keys of a pipe tell "
            "the rows of its source apart",
            twice,
        )


def pipe(
    spark: Session,
    source: Place,
    *,
    content: str = "append",
    transform: Transform | None = None,
    where: str | Column | None = None,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> SparkPipe:
    """What is new in a table, on its way into another, by Spark:
    `tablefmt.spark.pipe(spark, a).into(b)`.

    All as of `tablefmt.pipe`, on DataFrames: `transform` gives of a DataFrame another one, once a
    run (with keys twice: of rows that come, and of rows that go). What it makes of a row must not
    depend on others, however many there are (PIP-4). `where` is SQL text that Spark takes, a
    Column, or filter tuples. A pipe may be run here and there by turns: the cursor is the same.

    Raises:
        InvalidArgumentError: a content, a function or a name that is none.
        TableNotFoundError, CorruptTableError, StoreError: as `tablefmt.open`.
    """
    known_content(content)
    check_transform(transform)
    if isinstance(source, SparkTable):
        context = source.table.context
    elif isinstance(source, ReadableTable):
        context = source.context
    else:
        context = open_context(open_store(source, storage_options))
    return SparkPipe(spark, context, content, transform, where, known_name(name))
