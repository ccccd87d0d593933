"""Export of a table to one target: where the copy stands, and the way to the head, in order.

Foreign version n is made from the entries up to n, and is created only if absent. So there is no
lock, no leader and no cursor. Any number of exporters may run, and any of them may stop anywhere.
Spec: XPT-1, XPT-3 .. XPT-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from tablefmt.errors import (
    ExportBlockedError,
    StoreError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.export.export_target import ForeignCommit, Mark, Step, Target, started
from tablefmt.export.version_difference import NOTHING, difference
from tablefmt.model.log_entry import StoredEntry
from tablefmt.snapshot.checkpoint_base import NOTHING as NO_BASE
from tablefmt.snapshot.checkpoint_reader import usable_bases
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import (
    KeyNotFoundError,
    NoAnswer,
    Refused,
    Store,
    Written,
    most_of,
)

ATTEMPTS = 4
"""Times that a put without an answer is sent. The bytes are the same each time (STO-5)."""

WINDOW = 256
"""Entries read at once while catching up."""


@dataclass(slots=True)
class Progress:
    """Counts of one run."""

    first: int | None = None
    """First version that this run wrote or found."""
    written: int = 0
    """Foreign commits that this run created."""
    found: int = 0
    """Foreign commits that another exporter created first, with the same entry hash."""
    bytes: int = 0
    """Bytes of all objects that this run created."""
    held: str = ""
    """Reason why the copy does not show the newest exported version; "" if it does."""
    place: str = ""
    """Key of the newest foreign commit."""


@dataclass(slots=True)
class Exporter:
    """Exports one table to one target. Keeps the newest mark, so that a warm export asks nothing.

    Not safe to share between threads.
    """

    store: Store
    target: Target
    sleep: Callable[[float], None]
    mark: Mark | None = None
    """Mark of the newest foreign commit known; None: not known, or there is none."""
    place: str = ""
    """Key of that commit."""
    _looked: bool = field(default=False)
    _checked: bool = field(default=False)
    """True if the mark was compared with the log."""

    def stands(self) -> Mark | None:
        """Return the mark of the newest foreign commit in the store; None if there is none.

        Raises:
            ExportBlockedError: another program wrote it.
        """
        newest = self.target.newest(self.store)
        self._looked, self._checked = True, False
        if newest is None:
            self.mark, self.place = None, ""
            return None
        self.place, body = newest
        self.mark = self.target.read_mark(body)
        if self.mark is None:
            raise self._blocked(self.place, "it was not written by tablefmt")
        return self.mark

    def run(
        self,
        view: LogView,
        *,
        start: int | None = None,
        until: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Bring the copy up to the head of a view, version by version.

        Args:
            view: the log, at its head.
            start: the first version of a new copy; None: the head. An existing copy goes on.
            until: asked after each version; True ends the run early.

        Raises:
            ExportBlockedError: the copy has a commit that was not made from this log.
            UnsupportedFeatureError: the target cannot show the first version.
            VersionNotFoundError: `start` is not in the history.
            StoreError, CorruptTableError: of the store and of the log.
        """
        progress = Progress(place=self.place)
        if not self._looked:
            self.stands()
        if not self._checked:
            self._check(view)
            self._checked = True
        done = self.mark.version if self.mark is not None else self._start(view, start) - 1
        own = self._view_from(view, done + 1 if self.mark is None else self.mark.shown)
        for stored in _entries(own, done, view.head.version):
            self._step(own, stored, progress)
            if until():
                break
        if progress.first is None and self.mark is not None and self.target.lacks_hint(self.mark):
            progress.bytes += self.target.afterwards(own, self.mark, self.store)
        progress.place = self.place
        if not progress.held and self.mark is not None and self.mark.shown != self.mark.version:
            progress.held = self.target.cannot_show(own, self.mark.version)
        return progress

    def _check(self, view: LogView) -> None:
        """Refuse a copy that was not made from this log."""
        why = "" if self.mark is None else mark_problem(self.mark, view)
        if why:
            raise self._blocked(self.place, why)

    def _start(self, view: LogView, start: int | None) -> int:
        """Return the first version of a new copy. All exporters agree on it by one object."""
        head = view.head.version
        first = view.check_version(head if start is None else start)
        if reason := self.target.cannot_show(view, first):
            raise UnsupportedFeatureError(
                f"an export to {self.target.name} cannot begin with version {first}: {reason}",
                [f"export:{self.target.name}"],
            )
        wanted = orjson.dumps({"table": view.head.table, "start": first})
        self._create(self.target.start_key, wanted)
        fixed = started(self.store, self.target.start_key)
        if fixed is None:
            raise self._blocked(self.target.start_key, "it cannot be read")
        table, agreed = fixed
        if table != view.head.table:
            raise self._blocked(self.target.start_key, f"it is of a copy of the table {table}")
        return view.check_version(agreed)

    def _view_from(self, view: LogView, version: int) -> LogView:
        """Return a view that knows the files of a version and all later ones without rereading."""
        if version >= view.base.first:
            return view
        base = next(usable_bases(self.store, version), NO_BASE)
        if base is NO_BASE and view.timeline.oldest > 0:
            # Its checkpoint is damaged. The view finds another way to each state.
            return view
        entries = view.entries_after(base.version)
        return LogView(self.store, entries, base, whole=True)

    def _step(self, view: LogView, stored: StoredEntry, progress: Progress) -> None:
        version, mark = stored.version, self.mark
        held = self.target.cannot_show(view, version) if mark is not None else ""
        base = NOTHING if mark is None else mark.shown
        step = Step(
            uri=self.store.uri,
            view=view,
            stored=stored,
            metadata=view.metadata_at(version),
            previous=mark,
            difference=None if held else difference(view, base, version),
            created=view.created,
            held=held,
        )
        if mark is None:
            self._prepare(self.target.begin(view, step, self.store.get), progress)
        made = self.target.commit(step, self.store.get)
        self._prepare(made.before, progress)
        if self._count(made.key, made.body, progress):
            progress.written += 1
            self.mark = made.mark
        else:
            self.mark = self._found(stored, made)
            progress.found += 1
        self.place = made.key
        progress.first = version if progress.first is None else progress.first
        progress.held = held
        progress.bytes += self.target.afterwards(view, self.mark, self.store)

    def _prepare(self, objects: Sequence[tuple[str, bytes]], progress: Progress) -> None:
        """Create what a foreign commit needs. An object of a taken name must say the same."""
        for key, body in objects:
            # A store may answer that a free name is taken. The second create finds it free.
            if not any(
                self._count(key, body, progress) or self._is_taken(key, body) for _ in range(2)
            ):
                raise self._blocked(key, "it vanished while this export ran")

    def _is_taken(self, key: str, body: bytes) -> bool:
        """Return whether the object is there, and says the same. Raises ExportBlockedError."""
        try:
            agrees = self.target.agrees(key, body, self.store.get)
        except KeyNotFoundError:
            return False
        if not agrees:
            raise self._blocked(key, "another program wrote it")
        return True

    def _found(self, stored: StoredEntry, made: ForeignCommit) -> Mark:
        """Return the mark of the commit that took the version. Another exporter may have made
        it."""
        try:
            mark = self.target.read_mark(self.store.get(made.key))
        except KeyNotFoundError:
            raise self._blocked(made.key, "it vanished while this export ran") from None
        if mark is None:
            raise self._blocked(made.key, "it was not written by tablefmt")
        if not mark.is_of(stored):
            raise self._blocked(made.key, "it was made from another entry")
        return mark

    def _count(self, key: str, body: bytes, progress: Progress) -> bool:
        created = self._create(key, body)
        progress.bytes += len(body) if created else 0
        return created

    def _create(self, key: str, body: bytes) -> bool:
        """Create an object. Return False if the key was taken.

        Raises:
            StoreError: the store refused, or gave no answer repeatedly.
            UnsupportedFeatureError: STO-24, readers would refuse an object of this length.
        """
        if len(body) > most_of(key):
            raise UnsupportedFeatureError(
                f"the copy's object {key} would have {len(body)} bytes; at most {most_of(key)} are "
                "allowed (rule STO-24). Combine small files with Table.compact() first.",
                [f"export:{self.target.name}"],
            )
        reason = ""
        for attempt in range(ATTEMPTS):
            reply = self.store.put_if_absent(key, body)
            if isinstance(reply, Written):
                return True
            if isinstance(reply, Refused):
                raise StoreError(f"cannot write {key} at {self.store.uri}: {reply.reason}")
            if not isinstance(reply, NoAnswer):
                return False
            reason = reply.reason
            self.sleep(0.05 * 2**attempt)
        raise StoreError(
            f"no answer to the request to write {key} at {self.store.uri}: {reason}. Export again.",
            retryable=True,
        )

    def _blocked(self, key: str, why: str) -> ExportBlockedError:
        return ExportBlockedError(self.store.uri, self.target.name, key, why)


def mark_problem(mark: Mark, view: LogView) -> str:
    """Return why a mark is not of a log, or "". The view may be behind the mark."""
    if mark.table != view.head.table:
        return f"it is a copy of the table {mark.table}"
    if mark.version > view.head.version and not view.head.ended:
        view.refresh()
    if mark.version > view.head.version:
        return f"this table has no version {mark.version}; was it restored?"
    if mark.version < view.timeline.oldest:
        return ""
    same = mark.is_of(view.entries_after(mark.version - 1, mark.version)[0])
    return "" if same else "it was made from another entry"


def _entries(view: LogView, after: int, last: int) -> Iterator[StoredEntry]:
    """Yield the entries after a version, in order. Expired ones raise VersionNotFoundError."""
    oldest = view.timeline.oldest
    if after + 1 < oldest and after >= 0:
        raise VersionNotFoundError(f"version {after + 1}", oldest, last)
    for first in range(after, last, WINDOW):
        yield from view.entries_after(first, min(last, first + WINDOW))
