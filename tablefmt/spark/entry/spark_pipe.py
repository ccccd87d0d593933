"""`tablefmt.spark.pipe`: copy new rows of one table into another with Spark.

No row passes through the driver. Spec: PIP-1 .. PIP-7 (spec/pipes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.changes.change_schema import KIND, KINDS
from tablefmt.changes.commit_rows import INSERT
from tablefmt.changes.feed_plan import Contents, known_content
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.argument_names import check_names
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
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
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
"""A table, or the location of one."""


@dataclass(frozen=True, slots=True)
class SparkPipe:
    """A source table, and which of its rows to copy. `into` copies them."""

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
        """Copy everything new since the last run in one commit of the target (PIP-2).

        Arguments and errors as `tablefmt.pipes.pipe.Pipe.into`. `options` are those of
        `tablefmt.spark.write`, without an application transaction. A failed query raises Spark's
        own exception.
        """
        parsed = parse_options(options)
        merges = parsed.merge_schema
        columns = checked_keys(keys, self.content, parsed.commit, merge_schema=merges)
        overwrites = parsed.part or ("overwriteSchema" if parsed.overwrite_schema else None)
        if overwrites:
            raise InvalidArgumentError(
                f"a pipe appends or merges, and does not take {overwrites}, which is an option of "
                "overwrites"
            )
        failures.install()
        place = target.table if isinstance(target, SparkTable) else target
        store, context = target_of(place, parsed.storage_options, open_context_if_exists)
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
        rows = done.metrics.get("numSourceRows", done.metrics.get("numOutputRows", 0))
        return PipeRun(first, derived.to, rows, done)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a pipe that has rows to copy."""

    pipe: SparkPipe
    store: Store
    target: TableContext | None
    options: WriteOptions
    derived: DerivedFrom
    partition_by: Partitions

    def append(self) -> Commit:
        """Append the new rows or the row changes."""
        rows = self._transformed(self._new_rows(self.pipe.content))
        if self.target is None:
            return self._create(rows)
        # The version was just read. Commits since then are checked when this run commits.
        return append_rows(self.target, rows, self.options, refresh=False)

    def merge(self, keys: Sequence[str]) -> Commit:
        """Merge the net changes by their keys."""
        pipe = self.pipe
        chosen = pipe.where is not None or pipe.transform is not None
        whole = takes_both_ends(pipe.source, self.target, self.derived, keys, chosen=chosen)
        rows = self._new_rows("net", KINDS, whole=whole)
        if KIND in rows.columns:
            plain = [name for name in rows.columns if name != KIND]
            new, deleted = (
                rows.where(f"{KIND} {sign} '{INSERT}'").select(*map(quote_name, plain))
                for sign in ("=", "<>")
            )
        else:
            new, deleted = rows, None
        new_rows = self._transformed(new)
        names = named(keys, new_rows.columns)
        check_comparable(schema_from(new_rows.select(*map(quote_name, names)).schema).fields)
        if self.target is not None:
            there = self.target.view.head.metadata.schema.names
            check_copied(new_rows.columns, there, self.store.uri)
        deleted_keys = (
            None if deleted is None else self._transformed(deleted).select(*map(quote_name, names))
        )
        return again_if_lost("pipe", lambda: self._merged(new_rows, deleted_keys, names))

    def _merged(
        self, new_rows: DataFrame, deleted_keys: DataFrame | None, names: Sequence[str]
    ) -> Commit:
        """Merge new rows, and delete the rows with the keys of deleted rows.

        Both inputs are computed once and stored, because a nondeterministic transform would return
        different rows each time.
        """
        chosen = [quote_name(name) for name in names]
        origin = new_rows if deleted_keys is None else new_rows.select(*chosen).union(deleted_keys)
        stored_rows = stored_once(new_rows, "pipe").drop(SOURCE)
        stored_keys = (
            None if deleted_keys is None else stored_once(deleted_keys, "pipe").drop(SOURCE)
        )
        _check_keys(stored_rows, stored_keys, names)
        if self.target is None:
            return self._create(stored_rows)
        source = stored_rows.withColumn(DELETED, functions_of(stored_rows).lit(False))
        if stored_keys is not None:
            if self.derived.start is not None:
                self._check_copied_keys(stored_rows, stored_keys, names)
            lost = stored_keys.join(stored_rows.select(*chosen), list(names), "left_anti")
            lost = lost.distinct().withColumn(DELETED, functions_of(stored_rows).lit(True))
            source = source.unionByName(lost, allowMissingColumns=True)
        spark = self.pipe.spark
        signed = [n for n in names if stored_rows.schema[n].dataType.typeName() in _FLOATING]
        statement = merge_of(spark, merge_by(names, stored_rows.columns, signed), source, origin)
        return merge_once(self.target, spark, statement, self.options)

    def _check_copied_keys(
        self, stored_rows: DataFrame, stored_keys: DataFrame, names: Sequence[str]
    ) -> None:
        """Check that no earlier run has copied another row with one of the new keys (PIP-5).

        As in `tablefmt.pipes.pipe`, the source is read only if the target has one of the keys.

        Raises:
            MergeCardinalityError: names the keys.
        """
        pipe, target = self.pipe, self.target
        assert target is not None
        chosen = [quote_name(name) for name in names]
        rows = read_at(pipe.spark, target, target.view.head.version, None).select(*chosen)
        fresh = stored_rows.select(*chosen).join(stored_keys, list(names), "left_anti")
        # Recomputation returns the same rows: the inputs are stored rows and a fixed version.
        fresh = fresh.join(rows.toDF(*names), list(names), "left_semi").persist()
        try:
            if not fresh.limit(1).count():
                return
            every = self._transformed(self._new_rows("append", first=True)).select(*chosen)
            several = every.join(fresh, list(names), "left_semi").groupBy(*chosen).count()
            duplicates = several.where("count > 1").select(*chosen).limit(SHOWN).collect()
        finally:
            fresh.unpersist()
        if duplicates:
            raise several_rows(names, [row.asDict() for row in duplicates])

    def _new_rows(
        self,
        content: str,
        marks: pa.Schema | None = None,
        *,
        whole: bool = False,
        first: bool = False,
    ) -> DataFrame:
        """Return the new rows of the source. `first` returns all rows, as for a first run.

        Other arguments as in `changed_rows`.
        """
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

    def _transformed(self, rows: DataFrame) -> DataFrame:
        """Apply the caller's transform to rows. Raises SchemaMismatchError."""
        if self.pipe.transform is None:
            return rows
        made = self.pipe.transform(rows)
        if made is None:
            raise SchemaMismatchError("the transform returned None; expected a DataFrame")
        check_frame(made)
        return made

    def _create(self, rows: DataFrame) -> Commit:
        metadata = definition(nullable(schema_from(rows.schema)), self.partition_by or (), {})
        return write_first(rows, self.store, metadata, self.options, exist_ok=True)[1]


def _check_keys(stored_rows: DataFrame, stored_keys: DataFrame | None, keys: Sequence[str]) -> None:
    """Check that keys are unique and not NULL (PIP-5). At most `SHOWN` rows come to the driver.

    Raises:
        ConstraintViolationError: a key is NULL.
        MergeCardinalityError: two new rows have the same key.
    """
    chosen = [quote_name(key) for key in keys]
    absent = " OR ".join(f"{key} IS NULL" for key in chosen)
    every = (
        stored_rows.select(*chosen)
        if stored_keys is None
        else stored_rows.select(*chosen).union(stored_keys)
    )
    if every.where(parsed(functions_of(every), absent)).limit(1).count():
        raise ConstraintViolationError(
            f"the key ({', '.join(keys)}) of a new row is NULL, so the row cannot be matched; "
            "filter such rows out with `where` or `transform`"
        )
    several = stored_rows.groupBy(*chosen).count().where("count > 1")
    duplicates = [row.asDict() for row in several.select(*chosen).limit(SHOWN).collect()]
    if duplicates:
        raise MergeCardinalityError(
            f"several new rows have the same key ({', '.join(keys)}); the keys of a pipe must be "
            "unique in its source",
            duplicates,
        )


@check_names
def pipe(
    spark: Session,
    source: Place,
    *,
    content: Contents = "append",
    transform: Transform | None = None,
    where: str | Column | None = None,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> SparkPipe:
    """Return a pipe that copies new rows of a table into another, run by Spark.

    Usage: `tablefmt.spark.pipe(spark, a).into(b)`. Arguments as `tablefmt.pipe`, on DataFrames.
    `transform` maps a DataFrame to a DataFrame. It runs once per run, or twice with keys: for new
    rows and for deleted rows. Its result for a row must not depend on other rows or their number
    (PIP-4). `where` is SQL text that Spark parses, a Column, or filter tuples. Runs of this pipe
    and of `tablefmt.pipe` may alternate: they share the cursor.

    Raises:
        InvalidArgumentError: an invalid content, function or name.
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
