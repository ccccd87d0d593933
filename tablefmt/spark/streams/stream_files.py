"""The files that a stream reads: of the snapshot it began with, and of each commit. Spec: STR-3."""

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
"""Planned at once, about, however few a batch has: the next batches have the others."""

FIRST_WINDOW = 16
"""Entries read at once at first; four times as many each time that they are not enough."""


@dataclass(frozen=True, slots=True, eq=False)
class FileSet:
    """What there is to read of one version, in an order that never changes."""

    changes: Sequence[FileChanges]
    whole: bool
    """All of it goes into one batch."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Of the files, bytes."""
        sizes = [change.files["size"].to_numpy() for change in self.changes]
        return np.concatenate([np.zeros(0, np.int64), *sizes])

    def between(self, first: int, end: int | None = None) -> list[FileChanges]:
        """The files from place `first` on, up to `end`, exclusive."""
        chosen = []
        for change in self.changes:
            count = change.files.num_rows
            last = count if end is None else min(end, count)
            if first < last:
                chosen.append(replace(change, files=change.files.slice(first, last - first)))
            first, end = max(0, first - count), None if end is None else max(0, end - count)
        return chosen


class StreamFiles:
    """Plans what is read of versions, and keeps what was planned and is not yet read."""

    def __init__(self, view: LogView, options: StreamOptions, schema_version: int) -> None:
        """Take a log.

        Args:
            view: the log.
            options: of the stream.
            schema_version: the version in whose columns rows come.
        """
        self.view, self.options, self.schema_version = view, options, schema_version
        self.schema = nullable(view.metadata_at(schema_version).schema)
        """Of the rows. Those of earlier versions may be NULL in columns that are NOT NULL there."""
        self._columns = _columns(self.schema)
        self._planned: dict[int, FileSet] = {}
        self._ahead: dict[int, StoredEntry] = {}
        """Entries that were read, by version: the next batches want them."""
        self._snapshot: tuple[int, FileSet] | None = None

    def snapshot(self, version: int) -> FileSet:
        """All live rows of a version, as `insert`s of that version. Files are in order of ids.

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
        """What there is to read of each version; None: nothing, it is passed over.

        Args:
            first: the first version.
            last: the last one.
            files_wanted: what is planned at once is about so many files; None: no limit.

        Raises:
            UnsupportedFeatureError: as `is_read`. SchemaMismatchError: as `check_columns`. Either
            one only after all versions before that one.
            CorruptTableError: as `plan_changes`.
        """
        for entries in self._windows(first, last):
            while entries:
                chunk = _chunk(entries, files_wanted)
                entries = entries[len(chunk) :]
                yield from self._of(chunk)

    def digest(self, version: int) -> str:
        """Of the entry of a version."""
        known = self._ahead.get(version)
        head = self.view.head
        if known is not None:
            return known.digest
        if version == head.version:
            return head.digest
        return self.view.entries_after(version - 1, version)[0].digest

    def timestamp(self, version: int) -> int:
        """Of the commit of a version, µs UTC."""
        known = self._ahead.get(version)
        return self.view.timestamp_at(version) if known is None else known.entry.timestamp

    def _windows(self, first: int, last: int) -> Iterator[Sequence[Entry]]:
        """The entries of versions, some at a time: those that were read ahead, then more."""
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
        """The entries from one version on that were read ahead, up to the first that was not."""
        known = []
        while first <= last and (stored := self._ahead.get(first)) is not None:
            known.append(stored)
            first += 1
        return known

    def forget_before(self, version: int) -> None:
        """Let go of what was planned of earlier versions."""
        self._planned = {v: files for v, files in self._planned.items() if v >= version}
        self._ahead = {v: entry for v, entry in self._ahead.items() if v >= version - 1}
        if self._snapshot is not None and self._snapshot[0] < version:
            self._snapshot = None

    def check_columns(self, version: int) -> None:
        """Make sure that rows of a version can come in the columns of the stream.

        Raises:
            SchemaMismatchError: the columns are others there than when the stream was begun.
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
            f"version {changed} changed the columns of the table, and the stream was begun with "
            f"those of version {self.schema_version}. All before version {changed} was read. Load "
            "the stream again and start the query: it goes on with the new columns",
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
            # Those before the one that cannot be read are.
            for entry in chunk:
                yield from self._of([entry])
            return
        for version in versions:
            files = self._planned.get(version)
            yield version, files if files is not None and files.changes else None
        if problem is not None:
            raise problem

    def _plan(self, versions: Sequence[int]) -> None:
        """Plan them, those that follow one another together."""
        for run in _runs(versions):
            range_ = Covered(run[0], run[-1], True)
            if not self._holds(range_):
                raise SchemaMismatchError(
                    f"a column had another or a wider type in version {run[-1]}, or in the one "
                    f"before, than in version {self.schema_version}, whose columns the stream has; "
                    "all before was read; begin the stream later"
                )
            by_version: dict[int, list[FileChanges]] = {version: [] for version in run}
            try:
                found = planned(self.view, range_, "changes", self.schema)
            except UnsupportedFeatureError as error:
                if error.features != [DROPPED_FIELD]:
                    raise
                raise UnsupportedFeatureError(
                    f"in version {run[-1]}, or in the one before, the table had dropped a field of "
                    f"a struct that version {self.schema_version} has, whose columns the stream "
                    "has; all before was read; begin the stream later",
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
    """The first ones, as many as have the files that are wanted, and some more."""
    if files_wanted is None:
        return list(entries)
    sums = np.cumsum([touched_files(entry) for entry in entries])
    return entries[: int(np.searchsorted(sums, max(files_wanted, PLANNED_FILES))) + 1]


def _runs(versions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ascending numbers, in runs without a gap."""
    start = 0
    for at in range(1, len(versions) + 1):
        if at == len(versions) or versions[at] != versions[at - 1] + 1:
            yield versions[start:at]
            start = at


def _columns(schema: Schema) -> tuple[Field, ...]:
    """What readers see of columns: not what is said of them, nor what writers are told."""
    return tuple(
        replace(field, default=None, text=None) for field in without_comments(schema).fields
    )
