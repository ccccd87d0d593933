"""A table as the source of a stream: where it begins, how far a batch goes, what is in it.

Knows the log alone; who runs the stream, and reads the files, is another's matter. Spec: STR-1 …
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
"""Versions without rows after which a stream moves on by a batch of nothing: what it stands at may
expire, and what it would look through at its next start grows."""

SKIPPED_US = 3_600_000_000
"""Between the first version without rows and the last after which it does so too: half of what is
the least that entries are kept (RET-9)."""

_NOTHING = FileSet((), whole=False)


class StreamSource:
    """One stream of one table. Not for two threads at once."""

    def __init__(self, view: LogView, options: StreamOptions, schema_version: int) -> None:
        """Take a log.

        Args:
            view: the log.
            options: as parsed.
            schema_version: the version whose columns the stream has.
        """
        self.view, self.options = view, options
        self.files = StreamFiles(view, options, schema_version)
        self._until: int | None = None
        self._clear: tuple[Position, int] | None = None
        """A position, and the version up to which nothing follows it."""
        self._verified = -1
        """The newest version of which this log has the entry that offsets rely on."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows, without the change columns."""
        return self.files.schema

    def stop_at_head(self) -> None:
        """Read what is there now and no more (Trigger.AvailableNow)."""
        self.view.refresh()
        self._until = self.view.head.version

    def end_of_log(self, last: StreamOffset | None = None) -> StreamOffset:
        """Behind everything that there is, for an engine that does not tell where a batch begins.

        Whoever asks without `last` may have begun now, by its options, or go on: the same versions
        have the same offset, whoever found them.

        Args:
            last: where the last batch ended, if it is known: `last` itself if there is nothing new.

        Raises:
            VersionNotFoundError, InvalidRangeError: as `beginning`. As `next_offset`, with `last`.
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
            # Whoever begins is told by `beginning`; a stream that goes on is past it.
            began = end
        return self._offset(end, began)

    def beginning(self, head: int | None = None) -> StreamOffset:
        """Where a stream that has no checkpoint begins, by its options.

        Args:
            head: the newest version that it knows; by default the one that there is now.

        Raises:
            VersionNotFoundError: a version or a time that is not in the history.
            ChangesExpiredError: INC-7. InvalidRangeError: a time that cannot be read.
        """
        if head is None:
            self.view.refresh()
        began = self._begin(head)
        return self._offset(began, began)

    def next_offset(self, start: StreamOffset | None, *, limited: bool) -> StreamOffset:
        """Where the next batch ends: at the start itself if there is nothing new.

        Args:
            start: where the last one ended; None: there was none.
            limited: heed the limits of the options.

        Raises:
            TableReplacedError, LogGapError, ChangesExpiredError: STR-5.
            UnsupportedFeatureError, SchemaMismatchError: as `StreamFiles.commits`: there is nothing
            before the commit that stops the stream.
        """
        self.view.refresh(waits=True)
        began = self._begin() if start is None else start.began
        position = began if start is None else start.position
        self._check(start, position)
        self.files.forget_before(position.version)
        files, volume = self.options.max_files, self.options.max_bytes
        allowance = Allowance(files, volume) if limited else Allowance(None, None)
        end = self._advance(position, allowance)
        if start is not None and end == start.position:
            return start
        return self._offset(end, began)

    def batch(self, start: StreamOffset | None, end: StreamOffset) -> list[FileChanges]:
        """What is read between two offsets: always the same of the same ones.

        Args:
            start: exclusive in that all before it was read; None: the stream began with this batch,
                where the end says, whatever the options say by now.
            end: as `next_offset` gave it.

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
                f"the batch ends at version {goal.version}, and begins after that: the checkpoint "
                "is damaged. Begin the stream with a new one"
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
        for version, of_commit in self.files.commits(self._passed(position) + 1, last, None):
            found = of_commit or _NOTHING
            first = _files_read(position, found) if version == position.version else 0
            ends = _files_read(goal, found) if version == goal.version else None
            chosen += found.between(first, ends)
        return chosen

    # Where it is

    def _passed(self, position: Position) -> int:
        """The version up to which nothing follows a position, as far as was looked."""
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
        """Make sure that the log still has what follows a position, and what came before.

        Raises:
            TableReplacedError: it is the log of another table, or another log of this one.
            LogGapError: it ends before the position. ChangesExpiredError: what follows is gone.
        """
        head = self.view.head
        oldest = head.totals.oldest
        if offset is not None:
            self._check_table(offset)
        if position.known >= 0:
            self.files.check_columns(min(position.known, head.version))
        if position.known > head.version:
            raise LogGapError(head.version + 1, position.known)
        # What a commit took away was live at the version before it.
        needed = position.version + 1 if position.snapshot else self._passed(position) + 1
        if oldest and needed <= oldest:
            raise ChangesExpiredError(position.version, oldest + 1)
        if self.options.changes and position.files and not position.snapshot:
            raise InvalidRangeError(
                f"the stream has read a part of version {position.version}, and with "
                "readChangeFeed it reads versions whole: start the query as it was before, until "
                "it is past that version"
            )
        if offset is not None and position.known > self._verified:
            if self.files.digest(position.known) != offset.entry:
                raise TableReplacedError(
                    f"entry {position.known} is another than the one that the stream has read: the "
                    "log was put in the place of that one; begin the stream with a new checkpoint",
                    rule="STR-5",
                )
            self._verified = position.known

    def _check_table(self, offset: StreamOffset) -> None:
        table = self.view.head.table
        if offset.table != table:
            raise TableReplacedError(
                f"the stream has read table {offset.table}, and table {table} is at this place "
                "now; begin the stream with a new checkpoint",
                rule="STR-5",
            )

    # How far it goes

    def _advance(self, start: Position, allowance: Allowance) -> Position:
        position = start
        if position.snapshot:
            found = self.files.snapshot(position.version)
            position = _taken(position, found, allowance)
            if position.snapshot:
                return position
        last = self.view.head.version if self._until is None else self._until
        clear = self._passed(position)
        first = clear + 1
        wanted = allowance.files
        if wanted is None and allowance.bytes is not None:
            wanted = FILES_BY_DEFAULT
        taken = start.snapshot
        try:
            for version, of_commit in self.files.commits(first, last, wanted):
                if of_commit is not None:
                    at = position if version == position.version else Position(version)
                    if allowance.is_used_up:
                        return at
                    position, taken = _taken(at, of_commit, allowance), True
                    if position.version == version:
                        return position
                elif version == position.version:
                    _files_read(position, _NOTHING)
                clear = version
        except (UnsupportedFeatureError, SchemaMismatchError):
            # All before it is read first.
            if not taken:
                raise
            return position
        if taken:
            return Position(clear + 1)
        self._clear = start, clear
        return Position(clear + 1) if self._is_left_behind(position.version, clear) else position

    def _is_left_behind(self, first: int, clear: int) -> bool:
        """Whether a stream moves on over versions without rows, both inclusive, or none."""
        if clear + 1 - first >= SKIPPED_MAX or first <= self.view.head.totals.oldest <= clear:
            return True
        times = [self.files.timestamp(version) for version in (first, clear) if first <= clear]
        return bool(times) and times[1] - times[0] >= SKIPPED_US


def _taken(position: Position, found: FileSet, allowance: Allowance) -> Position:
    """After as many files as may be taken."""
    sizes = found.sizes[_files_read(position, found) :]
    count = allowance.take(sizes, whole=found.whole)
    if count == len(sizes):
        return Position(position.version + 1)
    return Position(position.version, position.files + count, position.snapshot)


def _files_read(position: Position, found: FileSet) -> int:
    """How many files of its version were read before a position; there are more.

    Raises:
        InvalidRangeError: there are not.
    """
    if position.files and position.files >= len(found.sizes):
        raise InvalidRangeError(
            f"the stream has read {position.files} files of version {position.version}, which has "
            f"{len(found.sizes)}: the checkpoint is damaged. Begin the stream with a new one"
        )
    return position.files
