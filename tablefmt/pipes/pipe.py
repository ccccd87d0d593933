"""Implementation of `tablefmt.pipe`: copies new rows and commits its cursor in the same entry.

Spec: PIP-1 .. PIP-7 (spec/pipes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.changes.change_schema import KINDS
from tablefmt.changes.feed_plan import Contents, known_content
from tablefmt.commit.environment import SYSTEM
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, TableNotFoundError
from tablefmt.log.entry_json import NAME_BYTES_MAX
from tablefmt.model.argument_names import check_names
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.operations.append import append_statement
from tablefmt.operations.create import (
    Partitions,
    check_partitioning,
    create_with_rows,
    open_if_exists,
)
from tablefmt.operations.merge import MatchCheck, merge
from tablefmt.pipes.keyed_merge import (
    FRESH,
    check_copied,
    known_keys,
    merge_by,
    repeated_keys,
    several_rows,
    upserts,
)
from tablefmt.pipes.pipe_batch import (
    CountedRows,
    Transform,
    check_apart,
    check_transform,
    first_copied,
    new_rows,
    pieces,
    pipe_cursor_of,
    takes_both_ends,
    transformed,
)
from tablefmt.session.commit_options import CommitKeywords, CommitOptions, commit_options
from tablefmt.session.commit_result import Commit
from tablefmt.session.staging import autocommit
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import ReadableTable
from tablefmt.snapshot.cursors import NO_CURSORS
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import Uri, open_store
from tablefmt.store.object_store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

NAME = "PIPE"
"""Operation name of a run without new rows."""


@dataclass(frozen=True, slots=True)
class PipeRun(ArrowReport):
    """The result of one run of a pipe. `to_arrow` has one row; other libraries read the run."""

    first_version: int
    """The first version of the source in this run."""
    last_version: int
    """The last version, inclusive; `first_version - 1` if nothing was new."""
    rows: int
    """Rows appended to the target, or given to the MERGE, which counts deleted rows too."""
    commit: Commit
    """The commit in the target; `no_op` if nothing was new."""

    def to_arrow(self) -> pa.Table:
        """Return one row, a column for each field. The commit is a struct of its columns."""
        (commit,) = self.commit.to_arrow().to_struct_array().chunks
        columns = {
            name: [getattr(self, name)] for name in ("first_version", "last_version", "rows")
        }
        return pa.table({**columns, "commit": commit})


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe from a source. `into` runs it."""

    source: TableContext
    content: str
    transform: Transform | None
    where: Condition
    name: str

    def into(
        self,
        target: ReadableTable | Uri,
        *,
        keys: str | Sequence[str] | None = None,
        merge_schema: bool = False,
        partition_by: Partitions = None,
        storage_options: Mapping[str, Any] | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> PipeRun:
        """Copy everything new since the last run, in one commit of the target (PIP-2).

        Args:
            target: a table, or an address. If there is no table, one is created with the columns of
                the rows.
            keys: columns that identify rows of the source. Its net changes, deletes included, are
                applied by a MERGE (PIP-5). None: rows are appended.
            merge_schema: as for `Table.append`; only without keys.
            partition_by: as for `tablefmt.write`.
            storage_options: options of an address.
            commit: user_metadata={}, deadline=seconds.

        Raises:
            ConcurrentTransactionException: CFL-24, a concurrent run copied the same versions.
                Nothing was committed; run it again.
            TableReplacedError, ChangesExpiredError, InvalidRangeError, InvalidArgumentError: PIP-7;
                the message says what to do.
            MergeCardinalityError, ConstraintViolationError, SchemaMismatchError: PIP-5, the keys
                are invalid, or the keys of earlier rows are no longer known.
            Errors of reading the source, of `transform`, and of `Table.append` or `Table.merge`.
        """
        options = commit_options(commit)
        names = checked_keys(keys, self.content, options, merge_schema=merge_schema)
        store, context = target_of(target, storage_options)
        if context is not None:
            check_partitioning(context.view.head.metadata, partition_by)
        derived = next_of(self.source, store, context, self.name)
        if derived is None:
            assert context is not None
            return nothing_new(self.source, context)
        first = first_copied(self.source, derived)
        run = _Run(self, store, context, replace(options, derived_from=derived), derived, first)
        if names is None:
            return run.append(merge_schema, partition_by)
        return run.merge(names, partition_by)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run that has new versions to copy."""

    pipe: Pipe
    store: Store
    target: TableContext | None
    options: CommitOptions
    derived: DerivedFrom
    first: int

    def append(self, merge_schema: bool, partition_by: Partitions) -> PipeRun:
        pipe = self.pipe
        rows = new_rows(pipe.source, self.derived, pipe.content, pipe.where)
        counted_rows = transformed(rows, pipe.transform, self._columns)
        if self.target is None:
            return self._make(counted_rows, partition_by)
        statement = append_statement(counted_rows.reader, merge_schema=merge_schema)
        # The newest version was just read. The commit checks against concurrent commits since then.
        return self._ran(
            counted_rows, autocommit(self.target, statement, self.options, refresh=False)
        )

    def merge(self, keys: Sequence[str], partition_by: Partitions) -> PipeRun:
        pipe = self.pipe
        chosen = pipe.where is not None or pipe.transform is not None
        whole = takes_both_ends(pipe.source, self.target, self.derived, keys, chosen=chosen)
        rows = new_rows(pipe.source, self.derived, "net", pipe.where, KINDS, whole=whole)
        there = None if self.target is None else self.target.view.head.metadata.schema
        with upserts(rows, pipe.transform, keys, self._columns, there) as new:
            if self.target is None or there is None:
                return self._make(new.came(), partition_by)
            check_copied(new.columns.names, there.names, self.store.uri)
            statement = merge_by(new.keys, new.columns.names, new.signed)
            check = None
            if self.derived.start is not None:
                check = MatchCheck([*new.keys, FRESH], partial(self._check_second, new.keys))
            source = new.counted_rows.reader
            done = merge(self.target, source, statement, self.options, check=check)
            return self._ran(new.counted_rows, done)

    def _check_second(self, keys: Sequence[str], matched: pa.Table) -> None:
        """Refuse second rows of keys whose first row came in an earlier run (PIP-5).

        A row of the target that did not come from the source does not count. So the source's own
        rows decide; they are read only if there are such keys.

        Args:
            keys: keys of the pipe.
            matched: rows that the target holds, with their keys and FRESH.

        Raises:
            MergeCardinalityError: names the keys.
        """
        fresh = matched.filter(matched[FRESH]).select(list(keys))
        if not fresh.num_rows:
            return
        pipe = self.pipe
        rows = new_rows(pipe.source, replace(self.derived, start=None), "append", pipe.where)
        found = transformed(rows, pipe.transform, self._columns)
        twice = repeated_keys(fresh, pieces(found.reader, found.reader.schema))
        if twice:
            raise several_rows(keys, twice)

    @property
    def _columns(self) -> pa.Schema | None:
        """Schema of the target, if it exists."""
        return None if self.target is None else to_arrow(self.target.view.head.metadata.schema)

    def _make(self, counted_rows: CountedRows, partition_by: Partitions) -> PipeRun:
        _, done = create_with_rows(
            self.store, counted_rows.reader, self.options, partition_by=partition_by, exist_ok=True
        )
        return self._ran(counted_rows, done)

    def _ran(self, counted_rows: CountedRows, done: Commit) -> PipeRun:
        return PipeRun(self.first, self.derived.to, counted_rows.rows, done)


@check_names
def pipe(
    source: ReadableTable | Uri,
    *,
    content: Contents = "append",
    transform: Transform | None = None,
    where: Condition = None,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipe:
    """Return a pipe that copies new rows of a table into another: `tablefmt.pipe(a).into(b)`.

    The cursor is in the same commit as the rows. So nothing is lost or doubled, even if a run is
    killed, repeated, or concurrent with another (PIP-2). The first run copies everything.

    Args:
        source: a table, or an address.
        content: "append", the default: rows that are new or have a new value at the end (INC-6).
            "changes", "net": row changes, with the columns of INC-3. With keys, net changes are
            applied.
        transform: function from an Arrow table to another one, which may be empty. It is called for
            one piece of the rows at a time, in order. It is called with no rows only if no row is
            left and the target must be created, for its columns.
        where: as for `Table.changes`, over the source's columns.
        name: distinguishes several pipes between the same two tables.
        storage_options: options of an address.

    Raises:
        InvalidArgumentError: the content, the function or the name is invalid.
        TableNotFoundError, CorruptTableError, StoreError: as `tablefmt.open`.
    """
    known_content(content)
    check_transform(transform)
    if isinstance(source, ReadableTable):
        context = source.context
    else:
        store = open_store(source, storage_options)
        context = TableContext(store, LogView.open(store), SYSTEM)
    return Pipe(context, content, transform, where, known_name(name))


def known_name(name: str | None) -> str:
    """Return the name of a pipe, "" for none. Raises InvalidArgumentError."""
    text = "" if name is None else name
    try:
        fits = isinstance(text, str) and len(text.encode()) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise InvalidArgumentError(
            f"name={name!r:.100}: expected text of at most {NAME_BYTES_MAX} bytes"
        )
    return text


def checked_keys(
    keys: str | Sequence[str] | None, content: str, commit: CommitOptions, *, merge_schema: bool
) -> list[str] | None:
    """Return the key columns; None if rows are appended.

    Raises:
        InvalidArgumentError: the keys are invalid, or do not fit the other arguments.
    """
    if commit.application is not None:
        raise InvalidArgumentError(
            "a pipe does not accept `application`: its cursor already makes it exactly-once. "
            "Remove it."
        )
    if keys is None:
        return None
    if content == "changes":
        raise InvalidArgumentError(
            "keys apply net changes and cannot be combined with content='changes'. Remove one of "
            "the two."
        )
    if merge_schema:
        raise InvalidArgumentError(
            "merge_schema cannot be combined with keys. Alter the target first."
        )
    return known_keys(keys)


def target_of(
    target: ReadableTable | Uri,
    storage_options: Mapping[str, Any] | None,
    opened: Callable[[Store], TableContext | None] = open_if_exists,
) -> tuple[Store, TableContext | None]:
    """Return the store of the target, and its table if there is one, at its newest version.

    Args:
        target: a table, or an address.
        storage_options: options of an address.
        opened: opens the table in a store, or returns None if there is none.
    """
    if isinstance(target, ReadableTable):
        target.context.view.refresh()
        return target.context.store, target.context
    store = open_store(target, storage_options)
    return store, opened(store)


def next_of(
    source: TableContext, store: Store, target: TableContext | None, name: str
) -> DerivedFrom | None:
    """Return the versions that a run must copy; None if nothing is new.

    Takes one request of each table if nothing is new.

    Raises:
        InvalidArgumentError, TableReplacedError, ChangesExpiredError: PIP-7.
    """
    source.view.refresh()
    head = source.view.head
    cursors = NO_CURSORS if target is None else target.view.read_head.cursors
    if target is not None:
        check_apart(head, source.store.uri, target.view.head, store.uri)
    elif source.store.uri == store.uri:
        raise TableNotFoundError(store.uri)
    left = pipe_cursor_of(source.view, cursors, name)
    return None if left.is_current else left.taking(name)


def nothing_new(source: TableContext, target: TableContext) -> PipeRun:
    """Return the result of a run without new versions."""
    version = source.view.head.version
    return PipeRun(version + 1, version, 0, target.no_op(target.environment.nonce(), NAME))
