"""Change reader: the rows of a range of versions with their change columns.

Earlier versions than the first of a table may belong to a dropped table. Spec: INC-1 .. INC-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from tablefmt.changes.change_schema import (
    APPEND_COLUMNS,
    CHANGE_COLUMNS,
    KIND,
    check_names,
    schema_of_range,
    without_columns,
)
from tablefmt.changes.changed_rows import RowReader, difference, lost_of, may_cancel, together
from tablefmt.changes.commit_rows import INSERT, FileChanges
from tablefmt.changes.feed_plan import known_content, planned
from tablefmt.changes.version_range import (
    Bounds,
    Followed,
    covered,
    poll_seconds,
    with_cursors,
    with_numbers,
)
from tablefmt.commit.environment import Environment
from tablefmt.data.arrow_results import BatchSource
from tablefmt.data.matching_rows import RowFilter
from tablefmt.data.row_reader import answer_schema
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.errors import InvalidRangeError
from tablefmt.expressions.file_pruning import may_match
from tablefmt.expressions.predicate import Predicate
from tablefmt.model.cached_property import cached_property
from tablefmt.model.schema import Field, Schema
from tablefmt.session.table_scan import explain_given_up_version
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.head import tagged_at
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store


def begins_with(view: LogView, version: int) -> bool:
    """Return True if a known version created the table, without rows, after another was dropped
    (ENT-14).

    Version 0 always did. For any other version, the function reads the entry.
    """
    if version == 0:
        return True
    (stored,) = view.entries_after(version - 1, version)
    entry = stored.entry
    # Only the end of the previous table makes an entry keep no version before its own.
    return entry.horizon is None and entry.totals.oldest == version and entry.add is None


def surviving_files(
    change: FileChanges,
    predicate: Predicate,
    schema: Schema,
    unlooked: frozenset[int] = frozenset(),
) -> FileChanges | None:
    """Return the change without files that cannot hold a matching row; None if no file is left.

    The columns `unlooked` may have any value.
    """
    known = without_columns(change, unlooked)
    files = typed_bounds(known.files, schema.fields)
    mask = may_match(predicate, files, known.partition_ids)
    return replace(change, files=change.files.filter(pa.array(mask))) if mask.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Columns of a result row. `append` contains inserts only. Spec: INC-3, INC-6."""

    store: Store
    schema: Schema
    """All columns of the table."""
    columns: tuple[Field, ...]
    """Requested columns, in order."""
    marks: pa.Schema
    """Change columns of the result, or KIND. Without `_change_type` and KIND, it contains inserts
    only.
    """
    condition: RowFilter | None = None

    @property
    def shape(self) -> pa.Schema:
        """Return the Arrow schema of every batch."""
        return pa.schema([*answer_schema(self.columns), *self.marks])

    def batches(self, changes: Sequence[FileChanges]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of changes in their order, without rows that cancel. Raises as
        `read_files`.
        """
        shape = self.shape
        everything = any(name in self.marks.names for name in (CHANGE_COLUMNS.names[0], KIND))
        for run in together(changes):
            # Files cannot filter by lost columns, nor before equal rows have cancelled.
            late = self.condition is not None and bool(lost_of(run))
            # Rows are equal only if all of their columns are equal.
            columns = self.schema.fields if late or may_cancel(run) else self.columns
            places = [columns.index(column) for column in self.columns]
            condition = None if late else self.condition
            for change, rows in difference(
                RowReader(self.store, self.schema, columns, condition), run
            ):
                if late:
                    rows = self._selected(rows)
                if rows.num_rows and (everything or change.change == INSERT):
                    values = dict(zip(CHANGE_COLUMNS.names, change.marks, strict=True))
                    values[KIND] = change.change
                    marks = [
                        pa.repeat(pa.scalar(values[mark.name], mark.type), rows.num_rows)
                        for mark in self.marks
                    ]
                    arrays = [rows.column(at) for at in places]
                    yield pa.RecordBatch.from_arrays([*arrays, *marks], schema=shape)

    def _selected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true. `rows` has all columns."""
        assert self.condition is not None
        named = rows.rename_columns([field.physical for field in self.schema.fields])
        return self.condition.of_rows(named).rename_columns(rows.schema.names)


class Changes(BatchSource):
    """Row changes of versions `first_version` to `last_version`, both inclusive.

    An empty range has `last_version == first_version - 1`. To continue without loss or duplicates,
    pass `last_version` as the next `after_version`. Rows are read on demand. Reading raises
    CorruptTableError and CorruptDataError (DAT-5).
    """

    def __init__(
        self,
        view: LogView,
        environment: Environment,
        bounds: Bounds,
        *,
        content: str = "changes",
        schema: str = "end",
        expired: str = "error",
        columns: Sequence[str] | None = None,
        where: Condition = None,
        refresh: bool = True,
        marks: pa.Schema | None = None,
        whole: bool = False,
    ) -> None:
        """Take the arguments of `Table.changes`, and these.

        Args:
            refresh: check for newer versions first.
            marks: the change columns to return; None: all that the content has.
            whole: for "net", return all rows of both ends, without cancelling.
        """
        self._again = partial(
            Changes,
            view,
            environment,
            content=content,
            schema=schema,
            expired=expired,
            columns=columns,
            where=where,
            refresh=False,
        )
        self._environment, self._bounds = environment, bounds
        self.content = known_content(content)
        self._whole = whole
        if refresh:
            view.refresh()
        self.view = view
        bounds = with_numbers(bounds, partial(tagged_at, view.head))
        now = environment.now_us()
        if bounds.ending_timestamp is not None:
            # This machine's clock may be ahead of the clock of a network disk.
            now = view.store.server_time_us() or min(now, view.store.clock_us())
        self.range = covered(bounds, view.timeline, now, expired, partial(begins_with, view))
        self.table_schema = schema_of_range(view, self.range, schema, self._plan)
        """Columns of the table at one end of the range. Rows of other versions may be NULL in
        columns that are NOT NULL there.
        """
        self.columns = chosen_columns(self.table_schema, columns)
        if marks is None:
            marks = APPEND_COLUMNS if content == "append" else CHANGE_COLUMNS
        check_names((f.name for f in self.columns), marks, "leave them out with `columns`")
        selection = select_rows(where, self.table_schema)
        self.predicate = selection.predicate
        self.answer = Answer(
            view.store, self.table_schema, tuple(self.columns), marks, selection.rows
        )

    @property
    def first_version(self) -> int:
        """Return the first version covered."""
        return self.range.first

    @property
    def last_version(self) -> int:
        """Return the last version covered."""
        return self.range.last

    @property
    def settled(self) -> bool:
        """Return False while a commit in flight may still land in the range (INC-2)."""
        return self.range.settled

    @property
    def is_snapshot(self) -> bool:
        """Return True if the range has expired: the rows are all rows at its end, as `insert`
        (INC-7).

        The reader must then delete all earlier rows.
        """
        return not self.range.is_kept

    @property
    def schema(self) -> pa.Schema:
        """Return the table's columns and the change columns: without `_change_type` for
        `append`.
        """
        return self.answer.shape

    @cached_property
    def file_changes(self) -> list[FileChanges]:
        """Return the changes to read, by file, without files that cannot hold a requested row.

        The changes may contain equal rows that cancel: see `FileChanges.cancels`.
        """
        changes = self._plan(self.table_schema)
        if self.predicate is None:
            return changes
        left = []
        for run in together(changes):
            # Rows are compared without these columns, so a condition on them must not drop a row.
            ids = lost_of(run) if may_cancel(run) else frozenset[int]()
            asked = self.predicate, self.table_schema, ids
            surviving = (surviving_files(each, *asked) for each in run)
            left += [change for change in surviving if change is not None]
        return left

    def _plan(self, schema: Schema) -> list[FileChanges]:
        """Return the changes to read for a result with these columns, by file."""
        return planned(self.view, self.range, self.content, schema, whole=self._whole)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield rows in the order of versions; within a version, deleted rows first (INC-3)."""
        # Rows that a commit deleted were live before it.
        version = self.range.last if self.is_snapshot else max(0, self.range.before)
        with explain_given_up_version(self.view.store, version):
            yield from self.answer.batches(self.file_changes)

    def follow(self, poll: float = 1.0) -> Iterator[Followed]:
        """Yield the rows of the range, and then of every commit as it lands, for ever. Spec: INC-8.

        The schema is the current one; a later batch may have other columns. While there are no new
        versions, each poll is one small request every `poll` seconds. Every 5 seconds there are two
        more.

        Args:
            poll: how long to wait, seconds.

        Yields:
            A batch, and a version. After processing the batch, pass the version as the next
            `after_version`; then no row is lost. To avoid duplicates too, store the version
            together with the results. The version does not advance before the last row of a
            commit. With `expired="snapshot"` a pair has `snapshot`, which is None for a change.
            Otherwise all rows at that version replace the earlier rows. If there are no rows, the
            batch is empty.

        Raises:
            InvalidRangeError: the range has an end. InvalidArgumentError: an invalid `poll`. While
            it follows: the errors of `Table.changes` and of reading, TableReplacedError and
            StoreError.
        """
        if self._bounds.ending_version is not None or self._bounds.ending_timestamp is not None:
            raise InvalidRangeError("a followed range has no end: leave ending_… out")
        return self._follow(poll_seconds(poll))

    def _followed(self) -> Iterator[Followed]:
        """Yield the rows of the range for a follower."""
        pairs = with_cursors(self.to_batches(), self.first_version - 1, self.last_version)
        if not self.is_snapshot:
            yield from (Followed(*pair) for pair in pairs)
            return
        first = next(pairs, (pa.RecordBatch.from_pylist([], self.schema), self.last_version))
        for batch, last_version in chain([first], pairs):
            yield Followed(batch, last_version, self.last_version)

    def _follow(self, wait: float) -> Iterator[Followed]:
        window, seen = self, self.last_version
        bounds = self._bounds
        while True:
            if not window.range.empty:
                yield from window._followed()
                bounds = Bounds(after_version=window.last_version)
            self.view.refresh()
            while self.view.head.version <= seen:
                self._environment.sleep(wait)
                self.view.refresh(waits=True)
            window = self._again(bounds)
            seen = max(seen, window.last_version)
