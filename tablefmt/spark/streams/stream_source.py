"""A table as the source of a stream: its start, the end of each batch, and a batch's files.

This module reads the log only. Callers run the stream and read the files. Spec: STR-1 …
"""

from __future__ import annotations

from functools import partial

from tablefmt.changes.change_reader import begins_with
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.version_range import Bounds, covered
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidRangeError,
    LogGapError,
    SchemaMismatchError,
    TableReplacedError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.model.schema import Schema
from tablefmt.model.times import show_time, to_micros
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.streams.stream_files import FileSet, StreamFiles
from tablefmt.spark.streams.stream_options import EARLIEST, FILES_BY_DEFAULT, LATEST, StreamOptions
from tablefmt.spark.streams.stream_progress import Allowance, Position, StreamOffset

SKIPPED_MAX = 100
"""Versions without rows after which an empty batch moves the stream's offset forward.

Otherwise the offset's version may expire, and a restart would read more and more entries.
"""

SKIPPED_US = 3_600_000_000
"""Time between the first and last version without rows that has the same effect, in µs.

It is half of the shortest retention of entries (RET-9).
"""

_NOTHING = FileSet((), whole=False)


class StreamSource:
    """One stream of one table. Not thread-safe."""

    def __init__(self, view: LogView, options: StreamOptions, schema_version: int) -> None:
        """Make a source for a log.

        Args:
            view: the log.
            options: the parsed options.
            schema_version: the version with the columns of the stream.
        """
        self.view, self.options = view, options
        self.files = StreamFiles(view, options, schema_version)
        self._until: int | None = None
        self._clear: tuple[Position, int] | None = None
        """A position, and the version up to which no rows follow it."""
        self._verified = -1
        """Newest version with an entry that was compared with an offset."""

    @property
    def schema(self) -> Schema:
        """Columns of the rows, without the change columns."""
        return self.files.schema

    def stop_at_head(self) -> None:
        """Read up to the current version and no further (Trigger.AvailableNow)."""
        self.view.refresh()
        self._until = self.view.head.version

    def end_of_log(self, last: StreamOffset | None = None) -> StreamOffset:
        """Return the end of the log, for an engine that does not pass the start of a batch.

        Without `last`, the caller may start a stream or continue one. So equal versions give equal
        offsets in both cases.

        Args:
            last: the end of the last batch, if known. Returned as it is if there is nothing new.

        Raises:
            VersionNotFoundError, InvalidRangeError: as `beginning`. With `last`, as `next_offset`.
        """
        if last is None:
            self.view.refresh()
            end = Position(self.view.head.version + 1)
        else:
            end = self.next_offset(last, limited=False).position
            if end == last.position:
                return last
        try:
            began = self._begin(end.version - 1)
        except ChangesExpiredError:
            # `beginning` raises this for a new stream. A continued one is past its start.
            began = end
        return self._offset(end, began)

    def beginning(self, head: int | None = None) -> StreamOffset:
        """Return the start of a stream without a checkpoint, from its options.

        Args:
            head: the newest version to consider. Default: the newest version in the log.

        Raises:
            VersionNotFoundError: a version or a time that is not in the history.
            ChangesExpiredError: INC-7. InvalidRangeError: an invalid time.
        """
        if head is None:
            self.view.refresh()
        began = self._begin(head)
        return self._offset(began, began)

    def next_offset(self, start: StreamOffset | None, *, limited: bool) -> StreamOffset:
        """Return the end of the next batch. Equal to `start` if there is nothing new.

        Args:
            start: the end of the last batch. None: there was none.
            limited: True applies the limits of the options.

        Raises:
            TableReplacedError, LogGapError, ChangesExpiredError: STR-5.
            UnsupportedFeatureError, SchemaMismatchError: as `StreamFiles.commits`, if there is
            nothing to read before the commit that stops the stream.
        """
        self.view.refresh(waits=True)
        began = self._begin() if start is None else start.began
        position = began if start is None else start.position
        self._check(start, position)
        self.files.forget_before(position.version)
        given = self.options
        limits = (given.max_files, given.max_bytes, given.max_rows) if limited else ()
        allowance = Allowance(*limits)
        end = self._advance(position, allowance)
        if start is not None and end == start.position:
            return start
        return self._offset(end, began)

    def batch(self, start: StreamOffset | None, end: StreamOffset) -> list[FileChanges]:
        """Return the files between two offsets. Equal offsets always give equal files.

        Args:
            start: the end of the batch before. None: the stream began with this batch, at the start
                in `end`, whatever the current options are.
            end: an offset from `next_offset`.

        Raises:
            As `next_offset`.
        """
        if end.position.known > self.view.head.version:
            self.view.refresh()
        position, goal = end.began if start is None else start.position, end.position
        self._check_table(end)
        self._check(start, position)
        self._check(end, goal)
        if goal < position:
            raise InvalidRangeError(
                f"the batch ends at version {goal.version}, before it begins: the checkpoint is "
                "damaged; start the stream with a new checkpoint"
            )
        chosen: list[FileChanges] = []
        if position.snapshot:
            found = self.files.snapshot(position.version)
            ends = _files_read(goal, found) if goal.snapshot else None
            chosen += found.between(_files_read(position, found), ends)
            position = Position(position.version + 1)
        if goal.snapshot:
            return chosen
        last = goal.version if goal.files else goal.version - 1
        for version, of_commit in self.files.commits(self._empty_until(position) + 1, last, None):
            found = of_commit or _NOTHING
            first = _files_read(position, found) if version == position.version else 0
            ends = _files_read(goal, found) if version == goal.version else None
            chosen += found.between(first, ends)
        return chosen

    # Position in the log

    def _empty_until(self, position: Position) -> int:
        """Return the version up to which no rows follow a position, as far as known."""
        if self._clear is not None and self._clear[0] == position:
            return self._clear[1]
        return position.version - 1

    def _begin(self, known: int | None = None) -> Position:
        version, timestamp = self.options.version, self.options.timestamp
        head = self.view.head.version if self._until is None else self._until
        head = head if known is None else known
        timeline = self.view.timeline
        if version is None and timestamp is None:
            return Position(head, snapshot=True)
        if version == LATEST:
            return Position(head + 1)
        if version == EARLIEST:
            return Position(timeline.oldest + 1 if timeline.oldest else 0)
        bounds = Bounds(starting_timestamp=timestamp)
        if isinstance(version, int):
            bounds = Bounds(starting_version=version)
        begin = covered(bounds, timeline, 0, begins_with=partial(begins_with, self.view))
        if timestamp is not None and begin.empty:
            times = show_time(timeline.earliest), show_time(timeline.time_versions[-1])
            raise VersionNotFoundError(f"time {show_time(to_micros(timestamp))}", *times)
        return Position(begin.before + 1)

    def _offset(self, position: Position, began: Position) -> StreamOffset:
        entry = self.files.digest(position.known) if position.known >= 0 else None
        self._verified = max(self._verified, position.known)
        return StreamOffset(self.view.head.table, position, entry, began)

    def _check(self, offset: StreamOffset | None, position: Position) -> None:
        """Check that the log still has the entries before and after a position.

        Raises:
            TableReplacedError: the log of another table, or another log of this table.
            LogGapError: the log ends before the position. ChangesExpiredError: later entries
                expired.
        """
        head = self.view.head
        oldest = head.totals.oldest
        if offset is not None:
            self._check_table(offset)
        if position.known >= 0:
            self.files.check_columns(min(position.known, head.version))
        if position.known > head.version:
            raise LogGapError(head.version + 1, position.known)
        # Rows that a commit removed were live at the version before.
        needed = position.version + 1 if position.snapshot else self._empty_until(position) + 1
        if oldest and needed <= oldest:
            raise ChangesExpiredError(position.version, oldest + 1)
        if self.options.changes and position.files and not position.snapshot:
            raise InvalidRangeError(
                f"the stream has read a part of version {position.version}, but readChangeFeed "
                "reads whole versions; run the query with its earlier options until it is past "
                "that version"
            )
        if offset is not None and position.known > self._verified:
            if self.files.digest(position.known) != offset.entry:
                raise TableReplacedError(
                    f"entry {position.known} is not the one that the stream has read, because the "
                    "log was replaced; start the stream with a new checkpoint",
                    rule="STR-5",
                )
            self._verified = position.known

    def _check_table(self, offset: StreamOffset) -> None:
        table = self.view.head.table
        if offset.table != table:
            raise TableReplacedError(
                f"the stream has read table {offset.table}, but table {table} is at this location "
                "now; start the stream with a new checkpoint",
                rule="STR-5",
            )

    # Size of a batch

    def _advance(self, start: Position, allowance: Allowance) -> Position:
        """Return the position after as many files as the limits allow."""
        if not start.snapshot:
            return self._advance_over_commits(start, allowance, taken=False)
        position = _position_after(start, self.files.snapshot(start.version), allowance)
        if position.snapshot:
            return position
        return self._advance_over_commits(position, allowance, taken=True)

    def _advance_over_commits(
        self, start: Position, allowance: Allowance, *, taken: bool
    ) -> Position:
        """Return the position after as many files of commits as the limits allow.

        A commit that the stream cannot read ends the batch. It is an error if the batch is empty.

        Args:
            start: a position in the commits.
            allowance: the limits.
            taken: the batch has files from before `start`.
        """
        position = start
        last = self.view.head.version if self._until is None else self._until
        passed = self._empty_until(start)
        wanted = allowance.files
        if wanted is None and (allowance.bytes, allowance.rows) != (None, None):
            wanted = FILES_BY_DEFAULT
        try:
            for version, found in self.files.commits(passed + 1, last, wanted):
                is_begun = version == position.version
                if found is not None:
                    at = position if is_begun else Position(version)
                    if allowance.is_used_up:
                        return at
                    position, taken = _position_after(at, found, allowance), True
                    if position.version == version:
                        return position
                elif is_begun:
                    # Only a damaged checkpoint has read files of a commit without rows.
                    _files_read(position, _NOTHING)
                passed = version
        except (UnsupportedFeatureError, SchemaMismatchError):
            if not taken:
                raise
            return position
        if not taken:
            # Look at these versions once. An offset that moves makes Spark run an empty batch.
            self._clear = start, passed
            if not self._skips_empty(start.version, passed):
                return start
        return Position(passed + 1)

    def _skips_empty(self, first: int, clear: int) -> bool:
        """Return whether to move the offset over versions without rows, `first` to `clear`."""
        if clear + 1 - first >= SKIPPED_MAX or first <= self.view.head.totals.oldest <= clear:
            return True
        times = [self.files.timestamp(version) for version in (first, clear) if first <= clear]
        return bool(times) and times[1] - times[0] >= SKIPPED_US


def _position_after(position: Position, found: FileSet, allowance: Allowance) -> Position:
    """Return the position after as many files as the limits allow."""
    first = _files_read(position, found)
    sizes, rows = found.sizes[first:], found.rows[first:]
    count = allowance.take(sizes, rows, whole=found.whole)
    if count == len(sizes):
        return Position(position.version + 1)
    return Position(position.version, position.files + count, position.snapshot)


def _files_read(position: Position, found: FileSet) -> int:
    """Return how many files of the position's version were read. At least one is left.

    Raises:
        InvalidRangeError: none is left.
    """
    if position.files and position.files >= len(found.sizes):
        raise InvalidRangeError(
            f"the stream has read {position.files} files of version {position.version}, which has "
            f"{len(found.sizes)}: the checkpoint is damaged; start the stream with a new "
            "checkpoint"
        )
    return position.files
