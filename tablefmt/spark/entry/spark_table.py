"""SparkTable: the methods of `Table` on DataFrames, run by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from tablefmt.data.clustering_order import Curve
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export.table_export import ExportReport, Start, TargetName
from tablefmt.expressions.filter_tuples import Filters
from tablefmt.expressions.literals import in_session
from tablefmt.expressions.merge_statement import MergeStatement
from tablefmt.expressions.set_assignments import assigned
from tablefmt.imports.clone import CloneKeywords
from tablefmt.imports.source import Format
from tablefmt.maintenance.log_expiry import ExpiryReport
from tablefmt.maintenance.vacuum import VacuumReport
from tablefmt.model.argument_checks import check_flags, check_set
from tablefmt.model.argument_names import check_method_names, check_names
from tablefmt.model.attribute_names import OF_TABLES, missing_attribute
from tablefmt.model.properties import Retention
from tablefmt.model.schema import Schema
from tablefmt.model.times import Time
from tablefmt.operations.alter import Alter, alter
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, compact, plan_of
from tablefmt.operations.compact_plan import Kind, LayoutPlan
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.operations.repartition import Repartition, repartition
from tablefmt.operations.update import UPDATE_CALL, set_fingerprint
from tablefmt.session.commit_options import CommitKeywords, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import newest, newest_snapshot
from tablefmt.session.statement_scope import AnalyzedCondition, kept_text
from tablefmt.spark.backends.backend_choice import check_shared
from tablefmt.spark.backends.distributed_compaction import (
    cluster_by,
    compact_by,
    files_where,
    repartition_by,
)
from tablefmt.spark.columns.catalog_columns import note
from tablefmt.spark.columns.row_conditions import (
    analyzed_text,
    as_column,
    is_plain,
    session_zone,
    text_condition,
    text_of,
    without_filters,
)
from tablefmt.spark.columns.store_assignment import new_column
from tablefmt.spark.entry.catalog_locations import catalog_table_or_none
from tablefmt.spark.entry.dataframe_io import append_rows, overwrite_rows
from tablefmt.spark.entry.delta_settings import (
    default_properties,
    merges_schemas,
    with_commit_settings,
    with_settings,
)
from tablefmt.spark.entry.java_arguments import check_no_folder
from tablefmt.spark.pyspark_objects import Column, DataFrame, Session, functions_of
from tablefmt.spark.runtime.failures import statement_errors
from tablefmt.spark.spark_options import (
    NamedOptions,
    RangeKeywords,
    WriteKeywords,
    WriteOptions,
    parse_options,
)
from tablefmt.spark.statements.dml import SparkCondition, delete_rows, update_rows
from tablefmt.spark.statements.frame_reads import changes_frame, find_row, read_at
from tablefmt.spark.statements.merge_clauses import merge_of
from tablefmt.spark.statements.spark_merge import explain as explain_merge
from tablefmt.spark.statements.spark_merge import merge_rows
from tablefmt.table import Table
from tablefmt.table import create as create_table
from tablefmt.table import import_table as import_files
from tablefmt.table import open as open_table

if TYPE_CHECKING:
    from typing_extensions import Unpack


@check_method_names
class SparkTable:
    """A table and a session. Reads and writes start from the newest version.

    `options` of a method are those of `tablefmt.spark.write`. Methods that write raise these errors
    besides those that they name:

        CommitRejectedError: nothing was committed: permission, disk or deadline (CMT-1).
        CommitUnknownError: the store did not answer. Call `table.resolve` (CMT-1).
        ConcurrentModificationException: the operation conflicts with a winning commit (CFL-1).
        InvalidRangeError, UnsupportedFeatureError: an option.
        UnsafeStoreError: the store does not create objects atomically (STO-12).
        UnsupportedFeatureError: ENT-7, the table needs a newer writer. Spark's own exceptions: a
        query failed, and nothing was committed.
    """

    def __init__(self, spark: Session, table: Table) -> None:
        table.context.changed = note
        self.spark = spark
        self.table = table
        """The same table without Spark, for everything that needs no Spark job."""

    def __repr__(self) -> str:
        return f"Spark{self.table!r}"

    # A type checker refuses such a name by itself.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse a name of another library, and say what to call."""
            own = hasattr(Table, name) and not name.startswith("_")
            elsewhere = {name: f"table.{name}"} if own else {**OF_TABLES, "toDF": "to_df()"}
            raise missing_attribute("'SparkTable' object", name, elsewhere, dir(type(self)))

    def to_df(self, version: int | str | None = None, timestamp: Time | None = None) -> DataFrame:
        """Return the table as a DataFrame at a fixed version. Default: the newest version.

        Raises:
            VersionNotFoundError, InvalidRangeError: no such version or time (TIM-4).
            UnsupportedFeatureError: TIM-5, the session's time zone is not known here.
        """
        self.table.refresh()
        return read_at(self.spark, self.table.context, version, timestamp)

    def append(self, df: DataFrame, **options: Unpack[WriteKeywords]) -> Commit:
        """Append the rows of a DataFrame. Columns match by name (DAT-2), types by SQL-3.

        Raises:
            SchemaMismatchError, ConstraintViolationError: the rows do not fit (DAT-3, DAT-13).
        """
        return append_rows(self.table.context, df, self._options(options))

    def overwrite(
        self,
        df: DataFrame,
        where: str | Filters | None = None,
        *,
        dynamic_partitions: bool = False,
        **options: Unpack[WriteKeywords],
    ) -> Commit:
        """Replace the whole table, the rows for which `where` is TRUE, or the partitions of `df`.

        Args:
            df: the new rows. `where` must be TRUE for each of them (MRG-6).
            where: SQL text, as the option replaceWhere; or filter tuples.
            dynamic_partitions: as partitionOverwriteMode=dynamic.
            options: as `tablefmt.spark.write`.

        Raises:
            InvalidPredicateError: the condition. SchemaMismatchError: the rows do not fit.
            ConstraintViolationError: as `append`; `where` is not TRUE for a new row; or the table
                is append-only.
        """
        if where is not None:
            schema = newest(self.table.context).metadata.schema
            options["replaceWhere"] = text_condition(where, schema)
        if dynamic_partitions:
            options["partitionOverwriteMode"] = "dynamic"
        return overwrite_rows(self.table.context, df, self._options(options))

    def truncate(
        self, where: str | Filters | None = None, **commit: Unpack[CommitKeywords]
    ) -> Commit:
        """Delete every row, or the rows of a condition, as an overwrite without new rows.

        Args:
            where: SQL text that tablefmt can evaluate without Spark, or filter tuples. Times
                without a zone are in the session's time zone (SQL-4).
            commit: as `Table.truncate`.

        Raises:
            UnsupportedFeatureError: a condition that only `delete` can evaluate.
            ConstraintViolationError, CommitRejectedError: as `Table.truncate`, with all others.
        """
        if where is None:
            return self.table.truncate(**commit)
        schema = newest(self.table.context).metadata.schema
        text = text_condition(where, schema)
        target = analyzed_text(text, schema, session_zone(self.spark))
        if not target.exact:
            raise UnsupportedFeatureError(
                f"the condition {text[:200]} can be evaluated by Spark only; use delete",
                ["truncate:condition"],
            )
        return self.table.truncate(target.text, **commit)

    def restore(
        self,
        version: int | str | None = None,
        *,
        timestamp: Time | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Make an older version the newest one, without a Spark job.

        Arguments and errors as `Table.restore`. Text without a zone is in the session's time zone
        (TIM-5).
        """
        when = None if timestamp is None else in_session(timestamp, session_zone(self.spark))
        return self.table.restore(version=version, timestamp=when, **commit)

    def vacuum(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> VacuumReport:
        """Remove files that no kept version needs, without a Spark job. As `Table.vacuum`."""
        return self.table.vacuum(
            retention=retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )

    def export(
        self,
        to: TargetName,
        *,
        start: Start = "head",
        catalog: Any = None,
        table: str | None = None,
    ) -> ExportReport:
        """Write the table's metadata in the form of another format, without a Spark job.

        Arguments and errors as `Table.export`.
        """
        return self.table.export(to, start=start, catalog=catalog, table=table)

    def clone(
        self,
        into: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        **asked: Unpack[CloneKeywords],
    ) -> SparkTable:
        """Make a new table of one version, without a Spark job.

        Arguments and errors as `Table.clone`. Text of a time without a zone is in the session's
        time zone (TIM-5).
        """
        when = asked.get("timestamp")
        if when is not None:
            asked["timestamp"] = in_session(when, session_zone(self.spark))
        return SparkTable(
            self.spark, self.table.clone(into, storage_options=storage_options, **asked)
        )

    def expire_log(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> ExpiryReport:
        """Remove old entries of the log, without a Spark job. As `Table.expire_log`."""
        return self.table.expire_log(
            retention=retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )

    def delete(
        self, where: str | Filters | Column | None = None, **options: Unpack[WriteKeywords]
    ) -> Commit:
        """Delete the rows for which a condition is TRUE, or all rows without a condition.

        Args:
            where: SQL text, filter tuples as in `Table.scan`, or a Column.
            options: as `tablefmt.spark.write`.

        Raises:
            InvalidPredicateError: Spark rejects the condition, or it is not deterministic.
            ConstraintViolationError: the table is append-only. IdempotenceError: CFL-7.
        """
        parsed = parse_options(with_commit_settings(self.spark, options))
        with statement_errors():
            return delete_rows(self.table.context, self.spark, self._where(where), parsed)

    def update(
        self,
        set: Mapping[str, str | Column],
        where: str | Filters | Column | None = None,
        **options: Unpack[WriteKeywords],
    ) -> Commit:
        """Set columns of the rows for which a condition is TRUE.

        Args:
            set: new values by column, or by path of a field in a struct. A value is SQL text over
                the old row, or a Column. Types follow Spark's rules for INSERT.
            where: as `delete`.
            options: as `delete`.

        Raises:
            SchemaMismatchError: a column that does not exist or is set twice; a value that does not
                fit. UnsupportedFeatureError: a value inside an array or a map.
            ConstraintViolationError: DAT-3, DAT-13. Other errors as `delete`.
        """
        parsed = parse_options(with_commit_settings(self.spark, options))
        check_set(set, UPDATE_CALL)
        context = self.table.context
        schema = newest(context).metadata.schema
        functions = functions_of(self.spark)
        values = [
            (field, new_column(functions, field, value, field))
            for field, value in assigned(set, schema)
        ]
        with statement_errors():
            return update_rows(
                context,
                self.spark,
                self._where(where),
                values,
                parsed,
                set_fingerprint({n: _text(value, schema) for n, value in set.items()}),
                by_row=all(map(is_plain, set.values())),
            )

    def merge(
        self,
        source: DataFrame,
        on: str | Column,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
        **options: Unpack[NamedOptions],
    ) -> MergeBuilder[Commit]:
        """Start to build a MERGE (MRG-1). Nothing is read, checked or raised before `execute`.

        Args:
            source: a DataFrame, which is read once. It may be this table at another version.
            on: SQL text over both sides, or a Column.
            source_alias: the name of the source in expressions.
            target_alias: the name of the table in expressions.
            merge_schema: True adds columns that only the source has to the table (MRG-1).
            options: as `tablefmt.spark.write`. Commit options may also be given to `execute`.
        """

        merge_schema = merge_schema or merges_schemas(self.spark)

        def run(asked: MergeStatement, commit: CommitKeywords) -> Commit:
            given = {**options, **commit}
            parsed = parse_options(with_commit_settings(self.spark, given))
            statement_of = merge_of(self.spark, asked, source)
            with statement_errors():
                return merge_rows(self.table.context, self.spark, statement_of, parsed)

        def explain(asked: MergeStatement) -> str:
            context = self.table.context
            txn = newest_snapshot(context)
            with statement_errors():
                return explain_merge(txn, merge_of(self.spark, asked, source)(txn))

        return begin_merge(source, on, source_alias, target_alias, merge_schema, run, explain)

    def _options(self, given: Mapping[str, Any]) -> WriteOptions:
        return parse_options(with_settings(self.spark, given))

    def _where(self, given: str | Filters | Column | None) -> SparkCondition:
        context = self.table.context
        schema = newest(context).metadata.schema
        given = without_filters(given, schema)
        if given is None or isinstance(given, str):
            target = analyzed_text(given, schema, session_zone(self.spark))
            return SparkCondition(target, None if given is None else _column(self.spark, given))
        column = _column(self.spark, given)
        return SparkCondition(
            AnalyzedCondition(
                kept_text(_text(column, schema)), None, None, False, follows_from_columns=False
            ),
            column,
        )

    @property
    def alter(self) -> Alter[Commit]:
        """Changes of schema, properties and constraints, as `Table.alter`.

        Spark checks the existing rows, so a constraint's condition may use any SQL that Spark
        supports (ENT-10).
        """
        return Alter(self._alter)

    def _alter(self, alteration: Alteration, commit: CommitKeywords) -> Commit:
        find = partial(find_row, self.spark, self.table.context)
        return alter(self.table.context, alteration, commit_options(commit), find)

    def changes(self, **bounds: Unpack[RangeKeywords]) -> DataFrame:
        """Return the row changes of a range. Arguments and errors as `Table.changes`.

        `where` is SQL text that Spark parses, a Column, or filter tuples. Times in text without a
        zone are in the session's time zone (TIM-5).
        """
        where = bounds.pop("where", None)
        bounds = _in_session(self.spark, bounds)
        return changes_frame(self.spark, self.table.changes(**bounds), where)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return `Table.history` as a DataFrame, newest version first. Errors as there."""
        return self.spark.createDataFrame(self.table.history(limit))

    @overload
    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: str | Filters | None = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Combine small files, with one task per group of files.

        No row goes through the JVM: Arrow reads and writes in the Python workers. Arguments as
        `Table.compact`.

        Raises:
            InvalidPredicateError, InvalidArgumentError, CorruptDataError: as `Table.compact`.
            UnsupportedFeatureError: memory://, which the workers cannot read.
        """
        check_flags(dry_run=dry_run)
        options, context = commit_options(commit), self.table.context
        condition = files_where(self.spark, context, where)
        asked = Compaction(kind=kind, where=condition, target_file_size=target_file_size)
        if dry_run:
            return plan_of(context, asked.plan)
        work = compact_by(self.spark)
        return compact(context, asked, options, commit_every=commit_every, rewrite=work)

    def repartition(
        self, *, commit_every: int | None = None, **commit: Unpack[CommitKeywords]
    ) -> Commit:
        """Rewrite the files of older partitionings by the current one, in Spark's tasks.

        Arguments and errors as `Table.repartition`.

        Raises:
            UnsupportedFeatureError: memory://, which the workers cannot read.
        """
        options, context = commit_options(commit), self.table.context
        check_shared(context.store)
        asked = Repartition(repartition_by(self.spark))
        return repartition(context, asked, options, commit_every=commit_every)

    @overload
    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: str | Filters | None = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: str | Filters | None = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: str | Filters | None = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Sort the rows of each partition.

        Spark shuffles rows as serialized bytes to the task that writes their range. Arguments and
        errors as `Table.cluster`, and UnsupportedFeatureError as `compact`.
        """
        check_flags(dry_run=dry_run)
        options, context = commit_options(commit), self.table.context
        condition = files_where(self.spark, context, where)
        asked = Cluster(by=by, curve=curve, where=condition, target_file_size=target_file_size)
        if dry_run:
            return plan_of(context, asked.plan)
        work = cluster_by(self.spark)
        return cluster(context, asked, options, commit_every=commit_every, rewrite=work)


def _in_session(spark: Session, bounds: RangeKeywords) -> RangeKeywords:
    zone = session_zone(spark)
    result = bounds.copy()
    for name in ("starting_timestamp", "after_timestamp", "ending_timestamp"):
        when = bounds.get(name)
        if when is not None:
            result[name] = in_session(when, zone)  # type: ignore[arg-type]
    return result


def _column(spark: Session, given: str | Column) -> Column:
    """Return a Column of SQL text, or of a Column."""
    return as_column(functions_of(spark), given)


def _text(given: str | Column, schema: Schema) -> str:
    return given if isinstance(given, str) else text_of(given, schema.names)


@check_names
def open(
    spark: Session, uri: str, *, storage_options: Mapping[str, Any] | None = None
) -> SparkTable:
    """Open a table, without a Spark job.

    Args:
        spark: a session, classic or Connect.
        uri: the location of the table, or its SQL name in Spark's catalog. Text with a slash is a
            location, as is the name of a local folder that is a table.
        storage_options: as `tablefmt.open`. For a name in a classic session, they are added to the
            catalog's options. Over Connect, a name gives the location only.

    Raises:
        InvalidArgumentError: a local folder and a table of the catalog both have this name.
        TableNotFoundError, UnsupportedFeatureError: as `tablefmt.open`.
    """
    named = catalog_table_or_none(spark, uri)
    if named is not None:
        check_no_folder(uri, named)
        uri, storage_options = named.uri, {**named.storage_options, **(storage_options or {})}
    return SparkTable(spark, open_table(uri, storage_options=storage_options))


@check_names
def create(
    spark: Session,
    uri: str,
    schema: Any,
    *,
    partition_by: Sequence[str] = (),
    cluster_by: str | Sequence[str] | None = (),
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    exist_ok: bool = False,
) -> SparkTable:
    """Create a table without rows. Arguments and errors as `tablefmt.create`."""
    table = create_table(
        uri,
        schema,
        partition_by=partition_by,
        cluster_by=cluster_by,
        properties={**default_properties(spark), **(properties or {})} or None,
        storage_options=storage_options,
        exist_ok=exist_ok,
    )
    return SparkTable(spark, table)


@check_names
def import_table(
    spark: Session,
    uri: str,
    format: Format | None = None,
    *,
    into: str | None = None,
    adopt: bool = False,
    partition_schema: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> SparkTable:
    """Import the files of an existing table as a new table, without a Spark job.

    Arguments and errors as `tablefmt.import_table`.
    """
    table = import_files(
        uri,
        format,
        into=into,
        adopt=adopt,
        partition_schema=partition_schema,
        storage_options=storage_options,
    )
    return SparkTable(spark, table)
