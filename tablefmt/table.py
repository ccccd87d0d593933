"""Table: what the user holds. Every method hands over to the room that does the work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Union

import pyarrow as pa

from tablefmt.changes.range import Bounds
from tablefmt.changes.read import Changes
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.data.engine import MEMORY_BYTES
from tablefmt.data.selection import Condition
from tablefmt.log.names import entry_key
from tablefmt.maintenance.verify import Report, verify
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.clauses import Expression, MergeStatement
from tablefmt.model.entry import Metadata
from tablefmt.model.times import Time, from_micros, show_time
from tablefmt.operations.alter import Alter, Alteration, alter
from tablefmt.operations.append import append
from tablefmt.operations.context import Commit, TableContext, commit_options
from tablefmt.operations.create import create as create_table
from tablefmt.operations.delete import delete
from tablefmt.operations.history import history
from tablefmt.operations.merge import MergeBuilder
from tablefmt.operations.merge_plan import explain_merge, merge, source_reader
from tablefmt.operations.overwrite import overwrite
from tablefmt.operations.resolve import resolve
from tablefmt.operations.scan import Scan
from tablefmt.operations.transaction import Transaction
from tablefmt.operations.update import update
from tablefmt.snapshot.load import LogView
from tablefmt.store.open import open_store
from tablefmt.store.protocol import KeyNotFoundError, Store

Uri = Union[str, "os.PathLike[str]"]


class Table:
    """A handle on one table, at one version.

    Scans see the handle's version until `refresh()` or a write of its own moves it; writes,
    `changes` and `history` go by the newest version, whatever the handle's. Safe to share between
    threads.
    """

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def __repr__(self) -> str:
        sums = self.context.view.totals[self.version]
        when = self.context.view.timeline.time_versions[self.version]
        return (
            f"Table({self.uri!r}, version={self.version}, time={show_time(when)}, "
            f"files={sums.files}, rows={sums.rows - sums.deleted}, bytes={sums.bytes})"
        )

    @property
    def uri(self) -> str:
        """Where the table is; holds no secret."""
        return self.context.store.uri

    @property
    def id(self) -> str:
        """The table's own id, 32 hex digits: stays when the table is moved."""
        return self.context.view.head.table

    @property
    def version(self) -> int:
        """The ID version that this handle reads."""
        return self.context.version

    @property
    def timestamp(self) -> datetime:
        """Commit timestamp of `version`, aware, UTC."""
        return from_micros(self.context.view.timeline.timestamps[self.version])

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow types."""
        return to_arrow(self._metadata.schema)

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition columns, in order."""
        return self._metadata.partition_names

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that are set."""
        return dict(self._metadata.properties)

    @property
    def constraints(self) -> dict[str, str]:
        """The conditions of the CHECK constraints, by name."""
        return {name: each.condition for name, each in self._metadata.constraints.items()}

    @property
    def _metadata(self) -> Metadata:
        return self.context.view.metadata_at(self.version)

    def refresh(self) -> Table:
        """Move the handle to the newest version, and return it. One request if nothing is new.

        Raises:
            TableReplacedError, CorruptTableError: the log is not what it was.
        """
        self.context.refresh()
        return self

    def append(self, data: Any, *, merge_schema: bool = False, **commit: Any) -> Commit:
        """Add rows; columns by name. See operations/append.py for what it raises.

        `commit`: application=(id, version), user_metadata={}, deadline=seconds.
        """
        return append(self.context, data, commit_options(commit), merge_schema=merge_schema)

    def overwrite(
        self,
        data: Any,
        *,
        where: Condition = None,
        dynamic_partitions: bool = False,
        overwrite_schema: bool = False,
        **commit: Any,
    ) -> Commit:
        """Replace the whole table, the rows where a condition on partition columns holds, or the
        partitions that `data` has rows of. See operations/overwrite.py for what it raises.
        """
        return overwrite(
            self.context,
            data,
            commit_options(commit),
            where=where,
            dynamic_partitions=dynamic_partitions,
            overwrite_schema=overwrite_schema,
        )

    def truncate(self, where: Condition = None, **commit: Any) -> Commit:
        """Overwrite with nothing."""
        return overwrite(self.context, None, commit_options(commit), where=where)

    def delete(self, where: Condition = None, **commit: Any) -> Commit:
        """Take out the rows for which the condition is true; all of them for None.

        See operations/delete.py for what it raises.
        """
        return delete(self.context, where, commit_options(commit))

    def update(
        self, set: Mapping[str, Expression], where: Condition = None, **commit: Any
    ) -> Commit:
        """Give the rows for which the condition is true new values: column -> SQL expression over
        the old row. All rows for None. See operations/update.py for what it raises.
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
        """Put the rows of a source into the table, clause by clause; `execute` carries it out.

        Args:
            source: tabular data, or a scan of any table at any version; read once, by `execute`.
            on: which rows match: SQL text over both sides.
            source_alias, target_alias: what the text calls them.
            merge_schema: columns that only the source has become the table's, by `…_all` clauses.
            memory_limit: bytes, about, for the source and for finding matches; more is on disk.
        """
        statement = MergeStatement(
            on=on,
            source_alias=source_alias,
            target_alias=target_alias,
            merge_schema=merge_schema,
        )

        def run(statement: MergeStatement, commit: Mapping[str, Any]) -> Commit:
            return merge(self.context, source, statement, commit_options(commit), memory_limit)

        def explain(statement: MergeStatement) -> str:
            pinned = self.context.pin(self.context.begin().version)
            return explain_merge(pinned, source_reader(source), statement, memory_limit)

        return MergeBuilder(statement, run, explain)

    @property
    def alter(self) -> Alter[Commit]:
        """Changes of schema and properties: `alter.set_properties({...})` and so on."""
        return Alter(self._alter)

    def _alter(self, alteration: Alteration, commit: Mapping[str, Any]) -> Commit:
        return alter(self.context, alteration, commit_options(commit))

    def transaction(self, *, read_version: int | None = None) -> Transaction:
        """Begin a transaction that reads one version, by default the newest there is now.

        Raises:
            VersionNotFoundError, InvalidRangeError: no such version.
        """
        return Transaction(self.context, read_version)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        version: int | None = None,
        timestamp: Time | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A read of one version: the handle's, or the one asked for.

        Raises:
            VersionNotFoundError, InvalidRangeError: no such version or time.
            InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError: what is asked for.
        """
        snapshot = self.context.view.snapshot(self.context.resolve_point(version, timestamp))
        return Scan(self.context.store, snapshot, columns=columns, where=where, limit=limit)

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Condition = None,
        version: int | None = None,
        timestamp: Time | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """`scan(...)` as one Arrow table."""
        scan = self.scan(
            columns=columns, where=where, version=version, timestamp=timestamp, limit=limit
        )
        return scan.to_arrow()

    def changes(
        self,
        *,
        starting_version: int | None = None,
        after_version: int | None = None,
        starting_timestamp: Time | None = None,
        after_timestamp: Time | None = None,
        ending_version: int | None = None,
        ending_timestamp: Time | None = None,
        content: str = "changes",
        columns: Sequence[str] | None = None,
        where: Condition = None,
    ) -> Changes:
        """Row changes of a range; `starting` and `ending` are inclusive, `after` is exclusive.

        The default end is the newest version there is.

        Raises:
            InvalidRangeError, VersionNotFoundError: INC-1, INC-2.
            UnsupportedFeatureError: INC-4, or a content this version lacks.
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
            columns=columns,
            where=where,
        )

    def history(self, limit: int | None = None) -> pa.Table:
        """One row a version, newest first, with Delta's column names."""
        return history(self.context, limit)

    def resolve(self, transaction: str, version: int | None = None) -> Commit | None:
        """What became of an unknown commit: None only if it can never be in the table any more.

        Raises:
            CommitUnknownError: it still may.
        """
        return resolve(self.context, transaction, version)

    def verify(self, *, deep: bool = False) -> Report:
        """Check the log, and that every live file is there; with `deep` every page of them."""
        return verify(self.context.store, deep=deep)


def create(
    uri: Uri,
    schema: Any,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    exist_ok: bool = False,
) -> Table:
    """Make a table at `uri`; see operations/create.py for the arguments and what it raises."""
    context = create_table(
        open_store(uri, storage_options),
        schema,
        partition_by=partition_by,
        properties=properties,
        exist_ok=exist_ok,
    )
    return Table(context)


def open(uri: Uri, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """Open the table at `uri` at its newest version.

    Raises:
        TableNotFoundError: there is none. CorruptTableError: its log is damaged.
        UnsupportedFeatureError: it needs a newer reader.
    """
    return open_at(open_store(uri, storage_options))


def open_at(store: Store, environment: Environment = SYSTEM) -> Table:
    """Open the table at the root of a store."""
    return Table(TableContext(store, LogView.open(store), environment))


def exists(uri: Uri, *, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Whether there is a table at `uri`: whether it has a version 0."""
    try:
        open_store(uri, storage_options).size(entry_key(0))
    except KeyNotFoundError:
        return False
    return True
