"""The interface of a target: what it decides about one version, and what `export_run` does with it.

A target is a format such as Delta or Iceberg. It turns one version of the table into one foreign
commit: a few objects whose names and bytes follow from the step alone. It writes nothing itself.
`export_run` asks a target, in this order:

1. `newest` once for each handle: the newest foreign commit in the store, by listing.
2. `cannot_show` for each version: the reason why the format cannot show its rows, or "".
3. `commit` for each version: the objects. `export_run` creates `before`, each only if absent, and
   asks `agrees` if a name was taken.
   Then it creates the object that decides, `key`, only if absent.
4. `read_mark` if `key` was taken: the mark in the bytes that were found. The commit counts as done
   if table, version and entry hash are those of the step. Otherwise `ExportBlockedError`.
5. `afterwards`: derived objects such as a checkpoint or a hint. Losing one costs only time.

Every foreign commit carries its `Mark`. Whatever a target must know from earlier commits is in
`Mark.state`, because the log may have expired up to the exported version. Spec: XPT-1 .. XPT-4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tablefmt.export.version_difference import Difference
from tablefmt.log.strict_json import bounded_json
from tablefmt.model.log_entry import Metadata, StoredEntry
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import KeyNotFoundError, Store

Fetch = Callable[[str], bytes]
"""Read a whole object. Raises KeyNotFoundError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The facts that a foreign commit carries about the entry it was made from."""

    table: str
    """Id of the table."""
    version: int
    """Version of the table, and of the entry."""
    entry: str
    """SHA-256 of the entry's bytes."""
    shown: int
    """Version whose rows the copy shows: `version`, or an earlier one while the target holds."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """Facts that the next commit of the target needs, as JSON values."""

    def is_of(self, stored: StoredEntry) -> bool:
        """Return True if the mark names this entry."""
        entry = stored.entry
        named = (self.table, self.version, self.entry)
        return named == (entry.table, entry.version, stored.digest)


def checked_version(text: Any, most: Any = (1 << 63) - 1) -> int:
    """Return the version in a text of a copy, which anybody may have written.

    Raises:
        TypeError, ValueError: it is no whole number from 0 to `most`.
    """
    version = int(text)
    if not 0 <= version <= min(int(most), (1 << 63) - 1):
        raise ValueError(f"version {version}")
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One version to export."""

    uri: str
    """Address of the table."""
    view: LogView
    """The log: it knows the version and the shown one."""
    stored: StoredEntry
    """The entry of the version, with its digest."""
    metadata: Metadata
    """Metadata in force at the version."""
    previous: Mark | None
    """Mark of the foreign commit before; None for the first one."""
    difference: Difference | None
    """Difference between the shown version and this one; from nothing for the first commit. None
    if the copy holds: it goes on showing `previous.shown`.
    """
    created: int
    """Commit timestamp of version 0, µs UTC."""
    held: str = ""
    """Reason why the copy holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit:
    """The objects of one foreign commit."""

    key: str
    """Key of the object that decides. Its name has the version, so only one commit can have it."""
    body: bytes
    mark: Mark
    """The mark that `body` carries."""
    before: Sequence[tuple[str, bytes]] = ()
    """Keys and bytes of objects that `body` names. The same key always has the same meaning."""


class Target(Protocol):
    """One format that a table can be exported to. Holds no state of a table."""

    @property
    def name(self) -> str:
        """The name that users type: "delta" or "iceberg"."""

    @property
    def start_key(self) -> str:
        """Key of the object that fixes the first exported version, below the format's folder."""

    def newest(self, store: Store) -> tuple[str, bytes] | None:
        """Return key and bytes of the newest foreign commit, by any writer; None for none."""

    def read_mark(self, body: bytes) -> Mark | None:
        """Return the mark of a foreign commit; None if another program wrote it."""

    def cannot_show(self, view: LogView, version: int) -> str:
        """Return the reason why the format cannot show the rows of a version, or ""."""

    def begin(self, view: LogView, step: Step, fetch: Fetch) -> Sequence[tuple[str, bytes]]:
        """Return the objects that must exist before the first foreign commit, in order."""

    def commit(self, step: Step, fetch: Fetch) -> ForeignCommit:
        """Return the foreign commit of a version."""

    def afterwards(self, view: LogView, mark: Mark, store: Store) -> int:
        """Write derived objects after a commit is there. Return the number of bytes written."""

    def lacks_hint(self, mark: Mark) -> bool:
        """Return whether readers would open an older version than the newest foreign commit."""

    def agrees(self, key: str, body: bytes, fetch: Fetch) -> bool:
        """Return whether the object of a taken name has the meaning of `body`.

        `key` and `body` are of `begin` or of `ForeignCommit.before`. Raises KeyNotFoundError.
        """


def started(store: Store, start_key: str) -> tuple[str, int] | None:
    """Return the table and the first version of a copy; None if they are not known (XPT-4)."""
    try:
        fixed = bounded_json(store.get(start_key))
        return str(fixed["table"]), int(fixed["start"])
    except (KeyNotFoundError, LookupError, TypeError, ArithmeticError, ValueError):
        return None
