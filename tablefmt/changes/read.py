"""The rows of a range of versions, with what happened to them and when. Spec: INC-1 .. INC-4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa

from tablefmt.changes.answer import Answer
from tablefmt.changes.beginning import begins_with
from tablefmt.changes.columns import APPEND_COLUMNS, CHANGE_COLUMNS, check_names
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.contents import known_content, planned
from tablefmt.changes.follow import Followed, seconds, with_cursors
from tablefmt.changes.net import lost_of, may_cancel, together
from tablefmt.changes.range import Bounds, covered
from tablefmt.changes.schema import schema_of_range, without_columns
from tablefmt.commit.environment import Environment
from tablefmt.data.batch_source import BatchSource
from tablefmt.data.selection import Condition, chosen_columns, select_rows
from tablefmt.errors import InvalidRangeError
from tablefmt.expressions.prune import may_match
from tablefmt.model.cached import cached_property
from tablefmt.model.schema import Schema
from tablefmt.session.given_up import told_if_given_up
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.load import LogView


class Changes(BatchSource):
    """Row changes of versions `first_version` to `last_version`, both inclusive.

    An empty range has `last_version == first_version - 1`. Pass `last_version` on as the next
    `after_version`, and nothing is lost or doubled. Rows are read when they are asked for; what
    reads them raises CorruptTableError, and CorruptDataError (DAT-5).
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
        """As of `Table.changes`.

        Args:
            refresh: look for newer versions first.
            marks: which change columns there are; None: all that the content has.
            whole: of "net", all rows of both ends, and none cancels.
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
        now = environment.now_us()
        if bounds.ending_timestamp is not None:
            # This machine's clock may be ahead of the one of a disk of the network.
            now = view.store.server_time_us() or min(now, view.store.clock_us())
        self.range = covered(bounds, view.timeline, now, expired, partial(begins_with, view))
        self.table_schema = schema_of_range(view, self.range, schema, self._plan)
        """The table's columns at one end of the range. Other rows may be NULL in columns that are
        NOT NULL there."""
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
        """The first ID version covered."""
        return self.range.first

    @property
    def last_version(self) -> int:
        """The last ID version covered."""
        return self.range.last

    @property
    def settled(self) -> bool:
        """False while a commit in flight may still land in the range (INC-2)."""
        return self.range.settled

    @property
    def is_snapshot(self) -> bool:
        """The range has expired: the rows are all those at its end, as `insert` (INC-7). Whoever
        applies them has to remove all rows of before.
        """
        return not self.range.is_kept

    @property
    def schema(self) -> pa.Schema:
        """The table's columns and the change columns: without `_change_type` for `append`."""
        return self.answer.shape

    @cached_property
    def file_changes(self) -> list[FileChanges]:
        """What is read, file by file, without files that cannot hold a row that is asked for.

        Equal rows may be in it that cancel: see `FileChanges.cancels`.
        """
        changes = self._plan(self.table_schema)
        if self.predicate is None:
            return changes
        left = []
        for run in together(changes):
            # A row is not left out for a column without which it may be equal to another.
            ids = lost_of(run) if may_cancel(run) else frozenset[int]()
            surviving = (self._surviving(each, ids) for each in run)
            left += [change for change in surviving if change is not None]
        return left

    def _plan(self, schema: Schema) -> list[FileChanges]:
        """Return what is read for an answer of these columns, file by file."""
        return planned(self.view, self.range, self.content, schema, whole=self._whole)

    def _surviving(self, change: FileChanges, unlooked: frozenset[int]) -> FileChanges | None:
        """Without files that cannot hold a row that is asked for, whatever the values of some
        columns; None if there are no others.
        """
        assert self.predicate is not None
        known = without_columns(change, unlooked)
        files = typed_bounds(known.files, self.table_schema.fields)
        mask = may_match(self.predicate, files, known.partition_ids)
        return replace(change, files=change.files.filter(pa.array(mask))) if mask.any() else None

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the order of versions, of one version those that went first (INC-3)."""
        # What a commit took away was live before it.
        version = self.range.last if self.is_snapshot else max(0, self.range.before)
        with told_if_given_up(self.view.store, version):
            yield from self.answer.batches(self.file_changes)

    def follow(self, poll: float = 1.0) -> Iterator[Followed]:
        """The rows of the range, and then of every commit as it lands, for ever. Spec: INC-8.

        The columns are those of the moment: a later batch may have others. While nothing is new,
        one small request is made every `poll` seconds, and two more every 5 seconds.

        Args:
            poll: how long to wait, seconds.

        Yields:
            A batch, and the version to pass on as the next `after_version` once it was dealt with:
            nothing is lost then, nor doubled where that version is kept together with what was made
            of the rows. It stays where it was until the last row of a commit has come. With
            `expired="snapshot"` a pair has `snapshot`, not None where it is no change: all rows at
            that version take the place of those of before; if there are none, a batch of no rows
            says so.

        Raises:
            InvalidRangeError: the range has an end; a time that is none. While it goes on, what
            `Table.changes` and reading raise, TableReplacedError and StoreError.
        """
        if self._bounds.ending_version is not None or self._bounds.ending_timestamp is not None:
            raise InvalidRangeError("who follows changes gives no end: leave ending_… out")
        return self._follow(seconds(poll))

    def _followed(self) -> Iterator[Followed]:
        """The rows of the range for who follows."""
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
