"""`tablefmt.pipe`: what is new in one table goes into another, and where it came to with it.

Spec: PIP-1 .. PIP-7 (spec/pipes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tablefmt.changes.columns import KINDS
from tablefmt.changes.contents import known_content
from tablefmt.commit.environment import SYSTEM
from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidRangeError, TableNotFoundError
from tablefmt.log.cursors_json import NAME_BYTES_MAX
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.entry import DerivedFrom
from tablefmt.operations.append import append_statement
from tablefmt.operations.create import open_if_there
from tablefmt.operations.first_rows import Partitions, check_partitioning, create_with_rows
from tablefmt.operations.merge import MatchCheck, merge
from tablefmt.pipes.keyed import (
    FRESH,
    check_taken,
    known_keys,
    merge_by,
    repeated_keys,
    several_rows,
    upserts,
)
from tablefmt.pipes.left import left_in
from tablefmt.pipes.renewed import takes_both_ends
from tablefmt.pipes.rows import (
    Taken,
    Transform,
    check_transform,
    pieces,
    taken_rows,
    transformed,
)
from tablefmt.pipes.taking import check_apart, first_taken
from tablefmt.session.context import TableContext
from tablefmt.session.handle import Handle
from tablefmt.session.options import CommitKeywords, CommitOptions, commit_options
from tablefmt.session.receipt import Commit
from tablefmt.session.staging import autocommit
from tablefmt.snapshot.cursors import NO_CURSORS
from tablefmt.snapshot.load import LogView
from tablefmt.store.open import Uri, open_store
from tablefmt.store.protocol import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

NAME = "PIPE"
"""What a run that had nothing to do is called."""


@dataclass(frozen=True, slots=True)
class PipeRun:
    """What one run of a pipe did."""

    first_version: int
    """The first version of the source that was taken."""
    last_version: int
    """The last one, inclusive; `first_version - 1` if nothing was new."""
    rows: int
    """That went into the target: appended, or given to the MERGE, which counts a row that is gone.
    """
    commit: Commit
    """In the target; `no_op` if nothing was new."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """What is to be taken of which table. `into` takes it."""

    source: TableContext
    content: str
    transform: Transform | None
    where: Condition
    name: str

    def into(
        self,
        target: Handle | Uri,
        *,
        keys: str | Sequence[str] | None = None,
        merge_schema: bool = False,
        partition_by: Partitions = None,
        storage_options: Mapping[str, Any] | None = None,
        **commit: Unpack[CommitKeywords],
    ) -> PipeRun:
        """Take all that is new since the last run, in one commit of the target (PIP-2).

        Args:
            target: a table, or where one is. Where none is, one is made, with the columns of the
                rows.
            keys: columns that tell the rows of the source apart: its net changes are applied by a
                MERGE, deletes too (PIP-5). None: rows are appended.
            merge_schema: as of `Table.append`; without keys alone.
            partition_by: as of `tablefmt.write`.
            storage_options: of an address.
            commit: user_metadata={}, deadline=seconds.

        Raises:
            ConcurrentTransactionException: CFL-24, another run took the same at once. Nothing was
                committed; run it again.
            TableReplacedError, ChangesExpiredError, InvalidRangeError: PIP-7; it names what to do.
            MergeCardinalityError, ConstraintViolationError, SchemaMismatchError: PIP-5, keys that
                are none, or that are not known any more of rows of before.
            What reading the source, `transform`, and `Table.append` or `Table.merge` raise.
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
        first = first_taken(self.source, derived)
        run = _Run(self, store, context, replace(options, derived_from=derived), derived, first)
        if names is None:
            return run.append(merge_schema, partition_by)
        return run.merge(names, partition_by)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run that has something to take."""

    pipe: Pipe
    store: Store
    target: TableContext | None
    options: CommitOptions
    derived: DerivedFrom
    first: int

    def append(self, merge_schema: bool, partition_by: Partitions) -> PipeRun:
        pipe = self.pipe
        rows = taken_rows(pipe.source, self.derived, pipe.content, pipe.where)
        taken = transformed(rows, pipe.transform, self._columns)
        if self.target is None:
            return self._make(taken, partition_by)
        statement = append_statement(taken.reader, merge_schema=merge_schema)
        # The newest version was looked for just now; what came since is judged at the commit.
        return self._ran(taken, autocommit(self.target, statement, self.options, refresh=False))

    def merge(self, keys: Sequence[str], partition_by: Partitions) -> PipeRun:
        pipe = self.pipe
        chosen = pipe.where is not None or pipe.transform is not None
        whole = takes_both_ends(pipe.source, self.target, self.derived, keys, chosen=chosen)
        rows = taken_rows(pipe.source, self.derived, "net", pipe.where, KINDS, whole=whole)
        with upserts(rows, pipe.transform, keys, self._columns) as new:
            if self.target is None:
                return self._make(new.came(), partition_by)
            there = self.target.view.head.metadata.schema.names
            check_taken(new.columns.names, there, self.store.uri)
            statement = merge_by(new.keys, new.columns.names, new.signed)
            check = None
            if self.derived.start is not None:
                check = MatchCheck([*new.keys, FRESH], partial(self._check_second, new.keys))
            source = new.taken.reader
            done = merge(self.target, source, statement, self.options, check=check)
            return self._ran(new.taken, done)

    def _check_second(self, keys: Sequence[str], matched: pa.Table) -> None:
        """Refuse second rows of keys, whose first one came in an earlier run (PIP-5).

        A row of the target that nobody took from the source is no first one, so the source's own
        rows decide. They are read only if there are such keys.

        Args:
            keys: of the pipe.
            matched: rows that the target holds, with their keys and FRESH.

        Raises:
            MergeCardinalityError: it names the keys.
        """
        fresh = matched.filter(matched[FRESH]).select(list(keys))
        if not fresh.num_rows:
            return
        pipe = self.pipe
        rows = taken_rows(pipe.source, replace(self.derived, start=None), "append", pipe.where)
        found = transformed(rows, pipe.transform, self._columns)
        twice = repeated_keys(fresh, pieces(found.reader, found.reader.schema))
        if twice:
            raise several_rows(keys, twice)

    @property
    def _columns(self) -> pa.Schema | None:
        """Of the target, if it is there."""
        return None if self.target is None else to_arrow(self.target.view.head.metadata.schema)

    def _make(self, taken: Taken, partition_by: Partitions) -> PipeRun:
        _, done = create_with_rows(
            self.store, taken.reader, self.options, partition_by=partition_by, exist_ok=True
        )
        return self._ran(taken, done)

    def _ran(self, taken: Taken, done: Commit) -> PipeRun:
        return PipeRun(self.first, self.derived.to, taken.rows, done)


def pipe(
    source: Handle | Uri,
    *,
    content: str = "append",
    transform: Transform | None = None,
    where: Condition = None,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Pipe:
    """What is new in a table, on its way into another: `tablefmt.pipe(a).into(b)`.

    How far it came is in the very commit that holds the rows, so nothing is lost or doubled: killed
    anywhere, run any number of times, or by two at once (PIP-2). The first run takes all there is.

    Args:
        source: a table, or where one is.
        content: "append", the default: rows that are new, or have a new value at the end (INC-6).
            "changes", "net": what happened to rows, with the columns of INC-3. With keys it is the
            net changes that are applied.
        transform: gives of an Arrow table of some of the rows another one, perhaps an empty one. It
            is asked of a piece of them at a time, in their order. Of no rows it is asked only where
            none are left and no table is there yet: for the columns of the one that is made.
        where: as of `Table.changes`, over the source's columns.
        name: tells several pipes between the same two tables apart.
        storage_options: of an address.

    Raises:
        InvalidRangeError: a content, a function or a name that is none.
        TableNotFoundError, CorruptTableError, StoreError: as `tablefmt.open`.
    """
    known_content(content)
    check_transform(transform)
    if isinstance(source, Handle):
        context = source.context
    else:
        store = open_store(source, storage_options)
        context = TableContext(store, LogView.open(store), SYSTEM)
    return Pipe(context, content, transform, where, known_name(name))


def known_name(name: str | None) -> str:
    """The name of a pipe, "" for none. Raises InvalidRangeError."""
    text = "" if name is None else name
    try:
        fits = isinstance(text, str) and len(text.encode()) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise InvalidRangeError(f"name={name!r:.100} is not text of {NAME_BYTES_MAX} bytes at most")
    return text


def checked_keys(
    keys: str | Sequence[str] | None, content: str, commit: CommitOptions, *, merge_schema: bool
) -> list[str] | None:
    """Names of columns; None: rows are appended.

    Raises:
        InvalidRangeError: they are none, or mean nothing beside what else a run is told.
    """
    if commit.application is not None:
        raise InvalidRangeError(
            "a pipe takes no application: it is the cursor that makes it exactly once"
        )
    if keys is None:
        return None
    if content == "changes":
        raise InvalidRangeError(
            "with keys the net changes are applied, and content='changes' is not that: leave one "
            "of the two out"
        )
    if merge_schema:
        raise InvalidRangeError("merge_schema means nothing with keys: alter the table first")
    return known_keys(keys)


def target_of(
    target: Handle | Uri,
    storage_options: Mapping[str, Any] | None,
    opened: Callable[[Store], TableContext | None] = open_if_there,
) -> tuple[Store, TableContext | None]:
    """Where rows go, and the table there if there is one, at its newest version.

    Args:
        target: a table, or where one is.
        storage_options: of an address.
        opened: gives the table that is in a store; None: there is none.
    """
    if isinstance(target, Handle):
        target.context.view.refresh()
        return target.context.store, target.context
    store = open_store(target, storage_options)
    return store, opened(store)


def next_of(
    source: TableContext, store: Store, target: TableContext | None, name: str
) -> DerivedFrom | None:
    """What a run is to take; None if nothing is new.

    One request of each table, unless there is something.

    Raises:
        InvalidRangeError, TableReplacedError, ChangesExpiredError: PIP-7.
    """
    source.view.refresh()
    head = source.view.head
    cursors = NO_CURSORS if target is None else target.view.read_head.cursors
    if target is not None:
        check_apart(head, source.store.uri, target.view.head, store.uri)
    elif source.store.uri == store.uri:
        raise TableNotFoundError(store.uri)
    left = left_in(source.view, cursors, name)
    return None if left.is_current else left.taking(name)


def nothing_new(source: TableContext, target: TableContext) -> PipeRun:
    """The run that had nothing to do."""
    version = source.view.head.version
    return PipeRun(version + 1, version, 0, target.no_op(target.environment.nonce(), NAME))
