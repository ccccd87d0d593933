"""Plan the files that a stream reads: of its first snapshot, and of each commit. Spec: STR-3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tablefmt.changes.change_schema import DROPPED_FIELD, widened
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.feed_plan import planned
from tablefmt.changes.version_range import Covered
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.log.log_reader import WINDOW_MAX
from tablefmt.model.log_entry import Entry, StoredEntry
from tablefmt.model.schema import Field, Schema, nullable, without_comments
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.streams.stream_options import StreamOptions
from tablefmt.spark.streams.stream_progress import is_read, touched_files

PLANNED_FILES = 64
"""Approximate number of files planned at once. Later batches use those that a batch leaves."""

FIRST_WINDOW = 16
"""Entries in the first read. Each further read has four times as many."""


@dataclass(frozen=True, slots=True, eq=False)
class FileSet:
    """Files to read of one version, in an order that never changes."""

    changes: Sequence[FileChanges]
    whole: bool
    """True if one batch must have all files."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """File sizes in bytes."""
        return self._numbers("size")

    @property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of rows in the files, with deleted rows."""
        return self._numbers("rows")

    def _numbers(self, column: str) -> NDArray[np.int64]:
        found = [change.files[column].to_numpy() for change in self.changes]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def between(self, first: int, end: int | None = None) -> list[FileChanges]:
        """Return the files from index `first` to `end`, exclusive."""
        chosen = []
        for change in self.changes:
            count = change.files.num_rows
            last = count if end is None else min(end, count)
            if first < last:
                chosen.append(replace(change, files=change.files.slice(first, last - first)))
            first, end = max(0, first - count), None if end is None else max(0, end - count)
        return chosen


class StreamFiles:
    """Plans the files of versions, and keeps planned files until they are read."""

    def __init__(self, view: LogView, options: StreamOptions, schema_version: int) -> None:
        """Make a plan for a log.

        Args:
            view: the log.
            options: the options of the stream.
            schema_version: the version with the columns of the stream.
        """
        self.view, self.options, self.schema_version = view, options, schema_version
        self.schema = nullable(view.metadata_at(schema_version).schema)
        """Schema of the rows, all nullable: earlier versions may have NULL in NOT NULL columns."""
        self._columns = _columns(self.schema)
        self._planned: dict[int, FileSet] = {}
        self._ahead: dict[int, StoredEntry] = {}
        """Entries that were read, by version, for the next batches."""
        self._snapshot: tuple[int, FileSet] | None = None

    def snapshot(self, version: int) -> FileSet:
        """Return all live rows of a version as inserts of that version, with files in id order.

        Raises:
            CorruptTableError: as `LogView.snapshot`. VersionNotFoundError: ENT-13.
            SchemaMismatchError: as `check_columns`.
        """
        if self._snapshot is None or self._snapshot[0] != version:
            self.view.check_version(version)
            self.check_columns(version)
            every = Covered(version, version, True, is_kept=False)
            files = planned(self.view, every, "changes", self.schema)
            self._snapshot = version, FileSet(files, whole=False)
        return self._snapshot[1]

    def commits(
        self, first: int, last: int, files_wanted: int | None
    ) -> Iterator[tuple[int, FileSet | None]]:
        """Yield the files to read of each version. None for a version that is skipped.

        Args:
            first: the first version.
            last: the last version.
            files_wanted: approximate number of files to plan at once. None: no limit.

        Raises:
            UnsupportedFeatureError: as `is_read`. SchemaMismatchError: as `check_columns`. Both are
            raised after all earlier versions were yielded.
            CorruptTableError: as `plan_changes`.
        """
        for entries in self._windows(first, last):
            while entries:
                chunk = _chunk(entries, files_wanted)
                entries = entries[len(chunk) :]
                yield from self._of(chunk)

    def digest(self, version: int) -> str:
        """Return the digest of a version's entry."""
        known = self._ahead.get(version)
        head = self.view.head
        if known is not None:
            return known.digest
        if version == head.version:
            return head.digest
        return self.view.entries_after(version - 1, version)[0].digest

    def timestamp(self, version: int) -> int:
        """Return the commit time of a version, in µs UTC."""
        known = self._ahead.get(version)
        return self.view.timestamp_at(version) if known is None else known.entry.timestamp

    def _windows(self, first: int, last: int) -> Iterator[Sequence[Entry]]:
        """Yield the entries of versions in parts: those read before, then further ones."""
        size = FIRST_WINDOW
        while first <= last:
            window = self._known(first, last)
            if not window:
                window = self.view.entries_after(first - 1, min(last, first + size - 1))
                if len(self._ahead) > WINDOW_MAX:
                    self._ahead.clear()
                self._ahead.update((stored.version, stored) for stored in window)
                size = min(size * 4, WINDOW_MAX)
            first += len(window)
            yield [stored.entry for stored in window]

    def _known(self, first: int, last: int) -> list[StoredEntry]:
        """Return the entries from a version on that were read before, without a gap."""
        known = []
        while first <= last and (stored := self._ahead.get(first)) is not None:
            known.append(stored)
            first += 1
        return known

    def forget_before(self, version: int) -> None:
        """Drop the plans of earlier versions."""
        self._planned = {v: files for v, files in self._planned.items() if v >= version}
        self._ahead = {v: entry for v, entry in self._ahead.items() if v >= version - 1}
        if self._snapshot is not None and self._snapshot[0] < version:
            self._snapshot = None

    def check_columns(self, version: int) -> None:
        """Check that the columns of a version are those of the stream.

        Raises:
            SchemaMismatchError: the columns changed after the stream began.
        """
        if version <= self.schema_version:
            return
        theirs = _columns(nullable(self.view.metadata_at(version).schema))
        if theirs == self._columns:
            return
        changed = self.view.metadata_version_at(version)
        known = {f.id for f in self._columns}
        differing = [f.name for f in self._columns if f not in theirs]
        differing += [f.name for f in theirs if f.id not in known]
        raise SchemaMismatchError(
            f"version {changed} changed the columns of the table, and the stream has the columns "
            f"of version {self.schema_version}. Everything before version {changed} was read. Load "
            "the stream again and start the query: it continues with the new columns",
            differing,
        )

    def _of(self, chunk: Sequence[Entry]) -> Iterator[tuple[int, FileSet | None]]:
        problem: Exception | None = None
        read: list[int] = []
        versions = []
        for entry in chunk:
            try:
                if entry.metadata is not None:
                    self.check_columns(entry.version)
                if is_read(entry, self.options):
                    read.append(entry.version)
            except Exception as error:
                problem = error
                break
            versions.append(entry.version)
        try:
            self._plan([version for version in read if version not in self._planned])
        except (UnsupportedFeatureError, SchemaMismatchError):
            if len(chunk) == 1:
                raise
            # Yield the versions before the one that cannot be read.
            for entry in chunk:
                yield from self._of([entry])
            return
        for version in versions:
            files = self._planned.get(version)
            yield version, files if files is not None and files.changes else None
        if problem is not None:
            raise problem

    def _plan(self, versions: Sequence[int]) -> None:
        """Plan versions. Consecutive versions are planned together."""
        for run in _runs(versions):
            range_ = Covered(run[0], run[-1], True)
            if not self._holds(range_):
                raise SchemaMismatchError(
                    f"the stream uses the columns of version {self.schema_version}. In version "
                    f"{run[-1]} or the version before, a column had a different type. All earlier "
                    "versions were read. Start the stream at a later version"
                )
            by_version: dict[int, list[FileChanges]] = {version: [] for version in run}
            try:
                found = planned(self.view, range_, "changes", self.schema)
            except UnsupportedFeatureError as error:
                if error.features != [DROPPED_FIELD]:
                    raise
                raise UnsupportedFeatureError(
                    f"the stream uses the columns of version {self.schema_version}. In version "
                    f"{run[-1]} or the version before, the table lacked one of their struct "
                    "fields. All earlier versions were read. Start the stream at a later version",
                    error.features,
                ) from None
            for change in found:
                by_version[change.version].append(change)
            for version, changes in by_version.items():
                self._planned[version] = FileSet(changes, whole=self.options.changes)

    def _holds(self, range_: Covered) -> bool:
        """Return whether the stream's columns can hold all values of a range."""
        try:
            plan = partial(planned, self.view, range_, "changes")
            return widened(self.view, range_, self.schema, plan) == self.schema
        except InvalidRangeError:
            return False


def _chunk(entries: Sequence[Entry], files_wanted: int | None) -> Sequence[Entry]:
    """Return the first entries, enough for the wanted number of files."""
    if files_wanted is None:
        return list(entries)
    sums = np.cumsum([touched_files(entry) for entry in entries])
    return entries[: int(np.searchsorted(sums, max(files_wanted, PLANNED_FILES))) + 1]


def _runs(versions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield runs of consecutive numbers from ascending numbers."""
    start = 0
    for at in range(1, len(versions) + 1):
        if at == len(versions) or versions[at] != versions[at - 1] + 1:
            yield versions[start:at]
            start = at


def _columns(schema: Schema) -> tuple[Field, ...]:
    """Return the columns as readers see them, without comments, defaults and text lengths."""
    return tuple(
        replace(field, default=None, text=None) for field in without_comments(schema).fields
    )
