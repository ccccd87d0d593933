"""Table: the main object of the API. Every method calls the package that does the work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from tablefmt.changes.change_reader import Changes
from tablefmt.changes.feed_plan import Contents
from tablefmt.changes.version_range import Bounds
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.data.clustering_order import Curve
from tablefmt.data.selection import Condition
from tablefmt.data.sql_evaluation import MEMORY_BYTES
from tablefmt.export.table_export import ExportReport, Start, TargetName, export_table
from tablefmt.expressions.ddl import is_schema
from tablefmt.expressions.merge_statement import MergeStatement
from tablefmt.expressions.set_assignments import Expression
from tablefmt.imports.clone import clone, clone_store
from tablefmt.imports.iceberg_source import metadata_named
from tablefmt.imports.import_table import import_source
from tablefmt.imports.parquet_source import folders_above
from tablefmt.imports.source import Format
from tablefmt.inspection.explained_table import ExplainedTable
from tablefmt.maintenance.drop import drop_at
from tablefmt.maintenance.log_expiry import ExpiryReport, expire_log
from tablefmt.maintenance.maintain import SECONDS, MaintenanceReport, maintain
from tablefmt.maintenance.manual_checkpoint import CheckpointReport, checkpoint
from tablefmt.maintenance.repair import RepairReport, repair
from tablefmt.maintenance.vacuum import VacuumReport, vacuum
from tablefmt.maintenance.verify import Report, verify
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.argument_names import check_method_names, check_names
from tablefmt.model.clustering_columns import with_cluster_by
from tablefmt.model.properties import Retention
from tablefmt.model.times import Time, from_micros, show_time
from tablefmt.operations.alter import Alter, alter
from tablefmt.operations.alterations import Alteration
from tablefmt.operations.append import append
from tablefmt.operations.automatic_compaction import watch
from tablefmt.operations.cluster import Cluster, cluster
from tablefmt.operations.compact import Compaction, Progress, compact, plan_of
from tablefmt.operations.compact_plan import Kind, LayoutPlan
from tablefmt.operations.create import create as create_table
from tablefmt.operations.create import create_from, is_there
from tablefmt.operations.delete import delete
from tablefmt.operations.describe import history
from tablefmt.operations.merge import explain_merge, merge
from tablefmt.operations.merge_builder import MergeBuilder, begin_merge
from tablefmt.operations.metadata_tables import snapshots, tags
from tablefmt.operations.overwrite import overwrite, truncate
from tablefmt.operations.repartition import Repartition, repartition, rewrite_here
from tablefmt.operations.resolve import resolve
from tablefmt.operations.restore import restore
from tablefmt.operations.save_modes import Mode
from tablefmt.operations.save_modes import write as write_rows
from tablefmt.operations.transaction import Transaction
from tablefmt.operations.update import update
from tablefmt.pipes.replication_lag import LagReport, Source, lag
from tablefmt.session.commit_options import CommitKeywords, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import newest_snapshot
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import Uri, open_store
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


@check_method_names
class Table(ExplainedTable):
    """A handle on one table at one version.

    Scans read the handle's version until `refresh()` or a write of the handle moves it. Writes,
    `changes` and `history` use the newest version. A handle is safe to share between threads.

    Methods that write take `commit`, which are these options:

    - application=(id, version): applied at most once (CFL-7).
    - user_metadata={}: JSON values to keep in the entry.
    - deadline: seconds, at least 0, by default 600 (CMT-8).

    Besides the errors that they name, they raise:

        CommitRejectedError: nothing was committed: permission, disk or deadline (CMT-1).
        CommitUnknownError: the store did not answer. Call `resolve` (CMT-1).
        ConcurrentModificationException: the operation conflicts with a winning commit (CFL-1).
        IdempotenceError: the application version was used for other content (CFL-7).
        InvalidArgumentError: an invalid option of the commit.
        UnsafeStoreError: the store does not create objects atomically (STO-12).
        UnsupportedFeatureError: the table needs a newer writer (ENT-7).

    Every method that uses the store may raise StoreError if the store fails. It may raise
    CorruptTableError or TableReplacedError if the log is not what was written (LOG-1 .. LOG-3).
    """

    def __init__(self, context: TableContext) -> None:
        super().__init__(context)
        watch(context)

    def __repr__(self) -> str:
        sums = self.context.view.totals_at(self.version)
        when = self.context.view.time_version_at(self.version)
        return (
            f"Table({self.uri!r}, version={self.version}, time={show_time(when)}, "
            f"files={sums.files}, rows={sums.rows - sums.deleted}, bytes={sums.bytes})"
        )

    @property
    def timestamp(self) -> datetime:
        """Commit timestamp of `version`: aware, UTC."""
        return from_micros(self.context.view.timestamp_at(self.version))

    def refresh(self) -> Table:
        """Move the handle to the newest version, and return it. One request if nothing is new.

        Raises:
            TableReplacedError, CorruptTableError: the log was replaced or damaged.
        """
        self.context.refresh()
        return self

    def append(
        self, data: Any, *, merge_schema: bool = False, **commit: Unpack[CommitKeywords]
    ) -> Commit:
        """Add rows, columns by name (DAT-2). Commit nothing if there are neither rows nor an
        application version.

        Args:
            data: a pyarrow Table or reader, pandas, polars, or any object with
                `__arrow_c_stream__` or `__arrow_c_array__`. Named index levels of pandas are
                columns. Or a dict of columns, or a list of dicts, in which a missing key means the
                column's default or NULL. Or a table, or a scan of one. A scan of this table counts
                as a read of it, unless its version was requested explicitly (CFL-8).
            merge_schema: add missing columns in the same commit, and widen types to those of the
                data (SCH-9).
            commit: see the class.

        Raises:
            SchemaMismatchError: columns that the table lacks, a missing NOT NULL column, or a type
                that cannot be cast without loss.
            ConstraintViolationError: NULL in a NOT NULL column, or a failed CHECK (DAT-3, DAT-13).
            UnsupportedFeatureError: a CHECK that only Spark can evaluate.
        """
        return append(self.context, data, commit_options(commit), merge_schema=merge_schema)

    def overwrite(
        self,
        data: Any,
        where: Condition = None,
        *,
        dynamic_partitions: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Replace the whole table, the rows of a condition, or the partitions of the new rows.

        Args:
            data: as in `append`.
            where: as in `scan`. Selects the rows to replace, and must be TRUE for every new row
                (MRG-6).
            dynamic_partitions: replace only the partitions that `data` has rows of.
            overwrite_schema: replace the table's columns by those of `data`. Only for the whole
                table.
            partition_by: with `overwrite_schema`, the new partition columns, [] for none; None:
                keep the partition columns.
            commit: see the class.

        Raises:
            InvalidPredicateError: the condition, or two arguments that select the rows to replace.
            ConstraintViolationError: as `append`; `where` is not TRUE for a new row; the table is
                append-only.
            SchemaMismatchError, UnsupportedFeatureError: as `append`.
        """
        return overwrite(
            self.context,
            data,
            commit_options(commit),
            where=where,
            dynamic_partitions=dynamic_partitions,
            overwrite_schema=overwrite_schema,
            partition_by=partition_by,
        )

    def truncate(self, where: Condition = None, **commit: Unpack[CommitKeywords]) -> Commit:
        """Remove all rows, or those of `where`. Commit nothing if there are none.

        `where` and errors are those of `overwrite`.
        """
        return truncate(self.context, commit_options(commit), where=where)

    def delete(self, where: Condition = None, **commit: Unpack[CommitKeywords]) -> Commit:
        """Delete the rows for which the condition is TRUE; all rows for None (DEL-1).

        Args:
            where: as in `scan`.
            commit: see the class.

        Raises:
            ConstraintViolationError: the table is append-only.
            InvalidPredicateError, UnsupportedFeatureError: the condition (SQL-1, SQL-2).
            CorruptDataError: a data file is missing or damaged (DAT-5).
        """
        return delete(self.context, where, commit_options(commit))

    def update(
        self,
        set: Mapping[str, Expression],
        where: Condition = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Update the rows for which the condition is TRUE; all rows for None.

        Args:
            set: column, or path of a field in a struct (SQL-5) -> SQL text over the old row. Values
                are stored by SQL-3.
            where: as in `scan`.
            commit: see the class.

        Raises:
            SchemaMismatchError: a column does not exist, is set twice, or cannot store a value.
            ConstraintViolationError: DAT-3, DAT-13; the table is append-only.
            InvalidPredicateError, UnsupportedFeatureError: the condition or a value (SQL-1, SQL-2).
            CorruptDataError: a data file is missing or damaged (DAT-5).
        """
        return update(self.context, set, where, commit_options(commit))

    def merge(
        self,
        source: Any,
        on: Expression,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        merge_schema: bool = False,
        memory_limit: int = MEMORY_BYTES,
    ) -> MergeBuilder[Commit]:
        """Begin a MERGE of a source's rows into the table, clause by clause (MRG-1).

        `execute` of the result runs it. Nothing is read, checked or raised before.

        Args:
            source: tabular data, or a scan of any table at any version. `execute` reads it once.
            on: condition for matching rows: SQL text over both sides.
            source_alias: name of the source in the text.
            target_alias: name of the table in the text.
            merge_schema: add columns that only the source has to the table (MRG-1).
            memory_limit: approximate bytes for the source and for finding matches. The rest goes to
                disk.
        """

        def run(statement: MergeStatement, commit: CommitKeywords) -> Commit:
            return merge(self.context, source, statement, commit_options(commit), memory_limit)

        def explain(statement: MergeStatement) -> str:
            return explain_merge(newest_snapshot(self.context), source, statement, memory_limit)

        return begin_merge(source, on, source_alias, target_alias, merge_schema, run, explain)

    @property
    def alter(self) -> Alter[Commit]:
        """Methods to change schema, properties and constraints, such as `alter.add_column(name,
        type)`.

        Each change is one commit of metadata, and writes no data file (SCH-8, SCH-9, ENT-10).
        """
        return Alter(self._alter)

    def _alter(self, alteration: Alteration, commit: CommitKeywords) -> Commit:
        return alter(self.context, alteration, commit_options(commit))

    def tags(self) -> pa.Table:
        """Return the tags of the table, one row each, in the order of names (TAG-1).

        The columns are name, version, `retain_until` and `can_be_read`. `retain_until` is the time
        after which a vacuum may remove the version. It is NULL if the tag has no such time.
        """
        return tags(self.context)

    def snapshots(self) -> pa.Table:
        """Return one row for each version that can be read, oldest first, with Iceberg's column
        names.

        The columns are `committed_at`, `snapshot_id` (the version), `parent_id`, operation and
        summary (the metrics of the commit).
        """
        return snapshots(self.context)

    def transaction(self, *, read_version: int | str | None = None) -> Transaction:
        """Begin a transaction that reads one version, by default the newest in the store.

        Raises:
            VersionNotFoundError, InvalidRangeError: no such version.
            UnsafeStoreError, UnsupportedFeatureError: as every write.
        """
        return Transaction(self.context, read_version)

    def changes(
        self,
        *,
        starting_version: int | str | None = None,
        after_version: int | str | None = None,
        starting_timestamp: Time | None = None,
        after_timestamp: Time | None = None,
        ending_version: int | str | None = None,
        ending_timestamp: Time | None = None,
        content: Contents = "changes",
        schema: Literal["end", "start"] = "end",
        expired: Literal["error", "snapshot"] = "error",
        columns: Sequence[str] | None = None,
        where: Condition = None,
    ) -> Changes:
        """Return row changes of a range. `starting` and `ending` are inclusive, `after` is
        exclusive.

        Give one begin and at most one end. The default end is the newest version.

        Args:
            starting_version: the first version, inclusive (INC-1).
            after_version: the version before the first one. Pass `last_version` of the previous
                result.
            starting_timestamp: begin as a time, in the forms of `scan`, inclusive (INC-2).
            after_timestamp: begin as a time, exclusive.
            ending_version: the last version, inclusive.
            ending_timestamp: end as a time, inclusive.
            content: "changes": every row that a commit removed or added (INC-3). "net": the
                difference between the rows at both ends. "append": the inserts of that difference
                (INC-6).
            schema: use the columns at the "end" of the range, or at its "start": those of the
                version before the first one (INC-4).
            expired: for a range that begins with versions that are no longer kept (ENT-13):
                "error", or "snapshot" for all rows at its end, with `is_snapshot` (INC-7).
            columns: as in `scan`, out of these columns.
            where: as in `scan`, over the same columns. It is evaluated for each row, so for both
                images of an updated row.

        Raises:
            InvalidRangeError: two begins, none, or a begin after the end (INC-1, INC-2).
            VersionNotFoundError: a version outside the table, or a time before version 0.
            UnsupportedFeatureError: the condition.
            ChangesExpiredError: the changes of the range are no longer kept (ENT-13).
            SchemaMismatchError: a column does not exist, or has a name of INC-3.
            InvalidPredicateError: the condition.
        """
        bounds = Bounds(
            starting_version=starting_version,
            after_version=after_version,
            starting_timestamp=starting_timestamp,
            after_timestamp=after_timestamp,
            ending_version=ending_version,
            ending_timestamp=ending_timestamp,
        )
        return Changes(
            self.context.view,
            self.context.environment,
            bounds,
            content=content,
            schema=schema,
            expired=expired,
            columns=columns,
            where=where,
        )

    def history(self, limit: int | None = None) -> pa.Table:
        """Return one row for each version, newest first, with Delta's column names; at most `limit`
        rows.

        Raises:
            InvalidArgumentError: the limit is not a whole number of at least 0.
        """
        return history(self.context, limit)

    def resolve(self, transaction: str, version: int | None = None) -> Commit | None:
        """Return the commit with an unknown outcome if it is in the table; None if it can never be.

        Args:
            transaction: 32 hex digits from CommitUnknownError.
            version: the version from CommitUnknownError. Without it the result is never None
                (CMT-9).

        Raises:
            CommitUnknownError: the commit may still arrive.
            InvalidRangeError: an invalid transaction or version.
        """
        return resolve(self.context, transaction, version)

    @overload
    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def compact(
        self,
        kind: Kind = "minor",
        *,
        where: Condition = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Compact small files, partition by partition, and drop deleted rows.

        No query result changes: rows keep their order, there is no new time version, and
        incremental reads do not see it. If nothing needs compaction, no version is made. Memory
        holds two row groups and their read-ahead for each of a few parallel groups, never a file.

        Args:
            kind: "minor" selects small files and files with many deleted rows (CMP-1); "major"
                selects all files of partitions that need work (CMP-2).
            where: as in `scan`. It selects only files that may hold matching rows. A condition on
                partition columns selects exactly the files of those partitions (CMP-3).
            target_file_size: desired bytes of a file; by default the property targetFileSize.
            dry_run: return the plan, which can be printed and read as Arrow, and write nothing.
            commit_every: commit after every `commit_every` groups, so that they stay if the rest
                fails. The result is the last commit, with the metrics of all.
            progress: called with the groups done, and their total.
            commit: see the class.

        Raises:
            InvalidArgumentError: an invalid kind, size or number; `commit_every` with an
                application version.
            InvalidPredicateError, UnsupportedFeatureError: `where` is invalid.
            CorruptDataError: DAT-5, a file is damaged.
            ConcurrentModificationException: only with conflictGranularity transaction, or
                deleteMode copy-on-write. Otherwise groups with a conflict are left out (CFL-15).
        """
        check_flags(dry_run=dry_run)
        options = commit_options(commit)
        asked = Compaction(kind=kind, where=where, target_file_size=target_file_size)
        if dry_run:
            return plan_of(self.context, asked.plan)
        return compact(self.context, asked, options, commit_every=commit_every, progress=progress)

    def repartition(
        self,
        *,
        dry_run: bool = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Rewrite the files of older partitionings by the current one (EVO-5).

        No query result changes. Afterwards partition values decide for every file again. If no file
        is older, no file is rewritten.

        Args:
            dry_run: return the plan, and write nothing.
            commit_every: as in `compact`.
            progress: as in `compact`.
            commit: see the class.

        Raises:
            InvalidArgumentError: an invalid number; `commit_every` with an application version.
            CorruptDataError: DAT-5, a file is damaged.
            ConcurrentModificationException: a concurrent commit changed one of these files.
        """
        check_flags(dry_run=dry_run)
        options, asked = commit_options(commit), Repartition(rewrite_here(progress))
        if dry_run:
            return plan_of(self.context, asked.plan)
        return repartition(self.context, asked, options, commit_every=commit_every)

    @overload
    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: Condition = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[False] = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit: ...

    @overload
    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: Condition = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: Literal[True],
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> LayoutPlan: ...

    def cluster(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: Condition = None,
        curve: Curve | None = None,
        target_file_size: int | None = None,
        dry_run: bool = False,
        commit_every: int | None = None,
        progress: Progress | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit | LayoutPlan:
        """Sort the rows of each partition, so that files have tight bounds (CMP-5).

        Without columns, sort the files that need it in the order of the table (CMP-8).

        No query result changes except the order of rows. Memory holds, for each of a few parallel
        partitions, 128 MB of rows and a sorted range of 64 MB. Other rows wait in temporary files.

        Args:
            by: flat columns that do not partition the table; with one column, every curve is
                `linear`. None: the columns of `alter.set_clustering`. The cost is then in
                proportion to the rows that are new.
            where: as for `compact`.
            curve: "zorder" or "hilbert" treat all columns alike (hilbert keeps close points closer,
                and takes longer); "linear" sorts by the first column, then the second, and so on.
                None: zorder, and hilbert in the order of the table.
            target_file_size: as for `compact`, like `dry_run`, `commit_every` and `progress`; a
                group is a partition.
            commit: see the class.

        Raises:
            SchemaMismatchError: no column is named, and the table has no order; or a column is
                missing, nested, named twice, or a partition column.
            InvalidArgumentError: an unknown curve; also as `compact`.
            ConcurrentDeleteDeleteException: a concurrent commit changed or removed rows (CFL-11).
            Other errors as `compact`.
        """
        check_flags(dry_run=dry_run)
        options = commit_options(commit)
        asked = Cluster(by=by, curve=curve, where=where, target_file_size=target_file_size)
        if dry_run:
            return plan_of(self.context, asked.plan)
        return cluster(self.context, asked, options, commit_every=commit_every, progress=progress)

    def verify(self, *, deep: bool = False) -> Report:
        """Check the log, and everything that it names. With `deep`, read every page.

        Damage is reported, not raised (VFY-1). On a damaged table, the report says which versions
        can still be read, and since when it is damaged (VFY-2).

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: the table needs a newer reader.
        """
        return verify(self.context.store, deep=deep)

    def repair(
        self, *, dry_run: bool = True, accept_loss: Collection[str] = (), deep: bool = False
    ) -> RepairReport:
        """Write damaged derived objects again, and give up the files that you name (VFY-4).

        Derived are the hint, checkpoints, compacted log segments, and entries that a compacted log
        segment proves. No row changes by that.

        Args:
            dry_run: only plan. The report has the steps.
            accept_loss: paths of damaged or missing live files. One commit removes them and their
                rows. Older versions and the change feed of that commit cannot be read.
            deep: verify with `deep`, before and after.

        Raises:
            InvalidArgumentError: a path of `accept_loss` is no damaged file.
            StoreError: the store refused a step.
            ConstraintViolationError: files are given up, and the table is append-only.
            CommitRejectedError, ConcurrentModificationException, CommitUnknownError: of the commit.
        """
        return repair(
            self.context.store,
            dry_run=dry_run,
            accept_loss=accept_loss,
            deep=deep,
            environment=self.context.environment,
        )

    def export(
        self,
        to: TargetName,
        *,
        start: Start = "head",
        catalog: Any = None,
        table: str | None = None,
    ) -> ExportReport:
        """Write the table's metadata in the form of another format, over the same data files.

        Readers of that format then read the table. An existing copy gets the versions that it
        lacks. Set the property `export` to export every commit (XPT-1).

        Args:
            to: "delta" or "iceberg".
            start: first version of a new copy: "head", or an older version. Readers of the copy can
                read no version before it.
            catalog: catalog of Iceberg to register the copy with: its name in PyIceberg's
                configuration, or a catalog of PyIceberg.
            table: name of the copy in the catalog, such as "sales.orders".

        Raises:
            ExportBlockedError: another program writes where the copy is.
            UnsupportedFeatureError: the format cannot show the first version of a new copy.
            VersionNotFoundError: `start` is not in the history.
            InvalidArgumentError: an unknown format or start.
        """
        context = self.context
        asked = context.store, context.view, context.environment, to
        return export_table(*asked, start=start, catalog=catalog, table=table)

    def clone(
        self,
        into: Uri,
        *,
        shallow: bool = True,
        version: int | str | None = None,
        timestamp: Time | None = None,
        hold: bool = False,
        replace: bool = False,
        properties: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Table:
        """Clone one version of this table, by default the newest, to a new table (CLN-1).

        It has the version's rows, columns, partitioning, constraints and properties. It has no
        tags, no comment, no application versions and no history. Later commits of either table do
        not change the other.

        Args:
            into: the place of the new table.
            shallow: copy no file. The clone reads the files of this table, never writes or deletes
                them, and breaks if a vacuum removes them. Later, open it with the storage option
                `import_roots`. False: copy every live file, and check the copies.
            version: a version, or the name of a tag.
            timestamp: the version at this time instead, in the forms of `scan`.
            hold: for a shallow clone: set a tag of this table, so that a vacuum keeps the version.
                The tag is named in the clone's history; drop it when the clone is not needed.
            replace: replace the rows and the definition of the table at the place, if there is
                one. It keeps its history and its tags (CLN-5). A deep clone that is made again
                copies only what is new (CLN-6).
            properties: properties of the clone, in place of those of this table.
            storage_options: of the place; by default those of this table.

        Raises:
            TableExistsError, ForeignTableError: the place is taken.
            ConstraintViolationError: the table to replace is append-only.
            VersionNotFoundError, InvalidRangeError: no such version, or a vacuum gave it up
                meanwhile.
            InvalidArgumentError: the place is inside this table; `hold` of a deep clone.
            UnsupportedFeatureError: a shallow clone by a FLOAT or DOUBLE partition column with 0.
            CorruptDataError: a file to copy is missing or damaged.
            ProtocolChangedException: another creator of a table was first.
            UnsafeStoreError, CommitRejectedError, CommitUnknownError: as `create`.
        """
        return Table(
            clone(
                self.context,
                clone_store(self.context.store, into, storage_options),
                shallow=shallow,
                version=version,
                timestamp=timestamp,
                hold=hold,
                replace=replace,
                properties=properties,
            )
        )

    def checkpoint(self) -> CheckpointReport:
        """Write a checkpoint of the newest version, so that the table opens faster (CKP-1).

        Commits also write one every `checkpointInterval` versions.

        Raises:
            StoreError: the checkpoint cannot be written.
            CorruptTableError: the log is damaged.
        """
        return checkpoint(self.context)

    def maintain(self, *, dry_run: bool = False, seconds: float = SECONDS) -> MaintenanceReport:
        """Run the maintenance that is due: compact, checkpoint, vacuum, expire the log.

        Call it from cron, or beside a stream. A failed task is in the report, and the other tasks
        still run.

        Args:
            dry_run: report the tasks that are due, and change nothing.
            seconds: begin no new work after this time; at most half of it goes to compactions.

        Raises:
            InvalidArgumentError: `seconds` is not a number of 0 or more.
            StoreError, CorruptTableError: the log cannot be read.
        """
        return maintain(self.context, dry_run=dry_run, seconds=seconds)

    def restore(
        self,
        version: int | str | None = None,
        *,
        timestamp: Time | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> Commit:
        """Restore an older version by a new commit. The history stays (RET-1).

        Rows, columns, partitioning and constraints are restored. Properties and application
        transaction versions are not. If nothing differs, no version is made.

        Args:
            version: a kept version.
            timestamp: alternative to `version`: the version as of a time (TIM-4), aware, or ISO
                text.
            commit: see the class.

        Raises:
            InvalidRangeError: both or none of them are given, or the value is not a version or
                time.
            VersionNotFoundError: the version does not exist or is no longer kept; the error names
                the versions that can be restored (RET-2).
            ConstraintViolationError: the table is append-only.
        """
        return restore(self.context, version, timestamp, commit_options(commit))

    def vacuum(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> VacuumReport:
        """Drop versions older than `retention`, and remove the files that only they need.

        Files of the newest version, of kept versions and of running transactions stay. Objects that
        do not match this table's naming scheme stay too. Vacuum first commits the new retention
        horizon. The report has the reason for each file (RET-4, RET-6).

        Args:
            retention: how long a version stays after the next one replaced it: text such as "7
                days", a timedelta, or seconds. By default deletedFileRetentionDuration.
            dry_run: report the files that would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property. Readers of
                those versions fail, and running transactions may lose their files.

        Raises:
            InvalidRangeError: the retention is not a duration, or too short.
            UnsupportedFeatureError: the table is a whole bucket, or needs a newer writer.
            CommitRejectedError, CommitUnknownError: no file was removed.
        """
        return vacuum(
            self.context,
            retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )

    def expire_log(
        self,
        *,
        retention: Retention | None = None,
        dry_run: bool = True,
        breaks_running_transactions: bool = False,
    ) -> ExpiryReport:
        """Drop versions older than `retention`, and remove their log entries (RET-9).

        First, two checkpoints of the oldest kept version are written and verified. From then on,
        the table needs a reader that knows the feature logExpiry.

        Args:
            retention: how long an entry stays after the next one, as for `vacuum`. By default
                logRetentionDuration.
            dry_run: report the entries that would go, and change nothing.
            breaks_running_transactions: allow a retention shorter than that property, or than twice
                the longest transaction.

        Raises:
            InvalidRangeError: the retention is not a duration, or too short.
            UnsupportedFeatureError: the table is a whole bucket, or needs a newer writer.
            CommitRejectedError, CommitUnknownError: no entry was removed.
        """
        return expire_log(
            self.context,
            retention,
            dry_run=dry_run,
            breaks_running_transactions=breaks_running_transactions,
        )

    def lag(
        self,
        sources: Source | Iterable[Source] = (),
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> LagReport:
        """Return the replication lag of the table behind its sources: missing versions, and their
        age.

        The report has a row for each pipe. Only the sources named here are opened, and only for
        reading. For others, the report shows the address in the log (PIP-8, SEC-2).

        Args:
            sources: a source as its address or an open table, or several.
            storage_options: options for sources whose addresses have the scheme of this table.

        Raises:
            InvalidArgumentError: one of `sources` is not a source of this table. Also the errors of
                opening a source.
        """
        return lag(self.context, sources, storage_options)


@check_names
def create(
    uri: Uri,
    schema: Any,
    *,
    partition_by: str | Sequence[str] | None = (),
    cluster_by: str | Sequence[str] | None = (),
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    generated: Mapping[str, str] | None = None,
    identity: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    exist_ok: bool = False,
) -> Table:
    """Create a table at `uri`, empty or with rows.

    Args:
        uri: a local path, or an address that begins with file://, s3://, gs://, abfss://, az:// or
            memory:// (STO-11).
        schema: pyarrow.Schema, Spark StructType, or DDL text. Or data as in `Table.append`: the
            table gets its columns, and version 1 has its rows. If the rows do not fit, no table is
            created.
        partition_by: names of top-level columns that are not nested, or one name. At least one
            column must remain.
        cluster_by: columns of the clustering order, as in `alter.set_clustering` (CMP-8).
        properties: table properties by name.
        comment: of the table, up to 4,000 characters (ENT-11). For columns use `COMMENT '…'` in DDL
            text, or b"comment" in the metadata of a pyarrow field.
        generated: expressions of generated columns, by their names: `{"day": "CAST(ts AS DATE)"}`
            (GEN-1). In DDL text: `day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))`.
        identity: BIGINT columns whose values the table gives, by their names (IDN-1):
            `{"id": "ALWAYS (START WITH 1 INCREMENT BY 1)"}`, or "BY DEFAULT" if rows may bring
            values. In DDL text: `id BIGINT GENERATED ALWAYS AS IDENTITY`. Only with a schema.
        storage_options: credentials and settings of the store; by default from the environment.
        exist_ok: open an existing table with the same definition. Not with data.

    Raises:
        TableExistsError: a table exists; with `exist_ok`, one of another definition.
        SchemaMismatchError: invalid columns or properties (SCH-1 .. SCH-5, ENT-8).
        InvalidPredicateError: an expression of a generated column (GEN-2).
        ProtocolChangedException: another creator was first (CFL-4).
        InvalidArgumentError: data with `exist_ok`. Use `write` to append to an existing table.
        UnsupportedFeatureError, StoreError: the address or its options.
        UnsafeStoreError: the store does not create objects atomically (STO-12).
        CommitRejectedError: nothing was committed: permission, disk or deadline (CMT-1).
        CommitUnknownError: the store did not answer. Call `resolve` (CMT-1).
    """
    given = with_cluster_by(properties, cluster_by)
    store, definition = open_store(uri, storage_options), (partition_by, given, comment)
    more: dict[str, Any] = {"generated": generated, "identity": identity, "exist_ok": exist_ok}
    if is_schema(schema):
        made = create_table(store, schema, *definition, **more)
    else:
        made = create_from(store, schema, *definition, **more)
    return Table(made)


@check_names
def write(
    data: Any,
    uri: Uri,
    *,
    mode: Mode = "append",
    partition_by: Sequence[str] | str | None = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitKeywords],
) -> Commit:
    """Write rows to the table at `uri`. Without a table, create one with their columns.

    Args:
        data: as in `Table.append`.
        uri: as in `create`, like `storage_options`.
        mode: "append"; "overwrite" replaces all rows; "error" (or "errorifexists") only creates a
            table; "ignore" does nothing if there is a table, and returns a no-op.
        partition_by: partition columns of a new table. For an existing table, leave it out or name
            the same columns. With `overwrite_schema`, as in `Table.overwrite`.
        merge_schema: as in `Table.append`; only with mode "append".
        overwrite_schema: as in `Table.overwrite`; only with mode "overwrite".
        commit: as in `Table`.

    Raises:
        TableExistsError: mode is "error", and a table exists. Nothing was read.
        InvalidArgumentError: an invalid mode or argument.
        SchemaMismatchError, ConstraintViolationError: as `Table.append`; another partitioning.
    """
    options = commit_options(commit)
    return write_rows(
        open_store(uri, storage_options),
        data,
        options,
        mode=mode,
        partition_by=partition_by,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
    )


@check_names
def open(uri: Uri, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """Open the table at `uri` at its newest version.

    Raises:
        TableNotFoundError: there is none.
        CorruptTableError: its log is damaged.
        UnsupportedFeatureError: the table needs a newer reader (ENT-7); an unknown scheme (STO-11).
        StoreError: an invalid address or option, or a failed request.
    """
    return open_at(open_store(uri, storage_options))


def open_at(store: Store, environment: Environment = SYSTEM) -> Table:
    """Open the table at the root of a store."""
    return Table(TableContext(store, LogView.open(store), environment))


@check_names
def import_table(
    uri: Uri,
    format: Format | None = None,
    *,
    into: Uri | None = None,
    adopt: bool = False,
    partition_schema: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Import the files of an existing table as a new table. Copy nothing.

    The source stays readable. Later commits write only files of their own.

    Args:
        uri: the folder of the source. For Iceberg also the address of a metadata file, as a
            catalog names it: `…/metadata/00003-….metadata.json`.
        format: "parquet" (a folder of Parquet files, perhaps in hive folders such as `day=1`),
            "delta" or "iceberg"; None: detected from the files in the folder.
        into: the place of the new table; None: the source's folder. The returned handle may read
            the source's folder. Later, open the table with the storage option `import_roots`.
        adopt: vacuum and drop may remove the files once the table does not need them. By default,
            they never touch files of the source.
        partition_schema: the columns of hive folders with their types, as `create` takes them or
            as text such as "day INT"; None: long, date or string, by the values.
        storage_options: as in `create`, for both places.

    Raises:
        TableNotFoundError: there is no table of this format.
        TableExistsError: there is a tablefmt table already.
        InvalidArgumentError: an unknown format, `adopt` with `into`, or other partition columns.
        UnsupportedFeatureError, SchemaMismatchError: IMP-7, the source has something that a table
            cannot have.
        CorruptDataError: a file of the source is missing, is not Parquet, or is damaged.
        CommitRejectedError: the source changed meanwhile.
    """
    folder, metadata = metadata_named(uri)
    source = open_store(folder, storage_options)
    target = None
    if into is not None:
        roots = {**(storage_options or {}), "import_roots": [source.uri]}
        target = open_store(into, roots)
    above = (open_store(one, storage_options) for one in folders_above(source.uri))
    given = (format, partition_schema)
    return Table(import_source(source, target, *given, adopt=adopt, above=above, metadata=metadata))


@check_names
def exists(uri: Uri, *, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Return whether there is a table at `uri`: it has a version 0 (LOG-7), and was not dropped.

    Raises:
        UnsupportedFeatureError, StoreError: as `open`.
    """
    return is_there(open_store(uri, storage_options))


@check_names
def drop(
    uri: Uri,
    *,
    delete_data: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **commit: Unpack[CommitKeywords],
) -> Commit:
    """Drop the table at `uri`. Its last entry records that, and open handles notice (ENT-14,
    RET-8).

    The log stays, and a new table in its place continues its version numbers. Data files stay for
    current readers until a vacuum of the next table. Copies for Delta and Iceberg readers stay,
    with all that they show, and no table can be created beside them.

    With `delete_data`, data files and copies are deleted now, even if the table was dropped before
    (XPT-13). Imported files stay, except for those of an import with `adopt`.

    Raises:
        TableNotFoundError: there is none.
        ExportBlockedError: `delete_data`, and another program wrote to a copy. The table stays.
        UnsupportedFeatureError: a whole bucket (RET-6).
        StoreError: a file could not be deleted; call it again.
    """
    store = open_store(uri, storage_options)
    return drop_at(store, commit_options(commit), delete_data=delete_data)
