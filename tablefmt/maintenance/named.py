"""Objects other than data files that entries of the log name. Spec: RET-6, RET-10."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablefmt.log.codec import decode
from tablefmt.log.names import ENTRIES, entry_key, entry_version
from tablefmt.log.packed import read_entries
from tablefmt.log.reader import kept_from
from tablefmt.model.entry import Entry, LogHorizon, SideFile
from tablefmt.snapshot.load import LogView


class Named:
    """Named objects of a whole view. Entries that the view reads later count at once."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._sides: list[str] = []
        self._log_horizon: LogHorizon | None = None
        for entry in _below(view):
            self._sides += (c.path for c in (entry.add, entry.delete) if isinstance(c, SideFile))
            if entry.horizon is not None and entry.horizon.log is not None:
                self._log_horizon = entry.horizon.log

    @property
    def sides(self) -> pa.Array:
        """Keys of overflow metadata files."""
        later = (path for _, path in self._view.versions.sides)
        return pa.array([*self._sides, *later], pa.string())

    @property
    def log_horizon(self) -> LogHorizon | None:
        """The newest horizon of the log. Its checkpoints are the only source of the state."""
        horizons = self._view.versions.log_horizons
        return horizons[-1][1] if horizons else self._log_horizon


def _below(view: LogView) -> Iterator[Entry]:
    """Yield existing entries below the view's checkpoint base."""
    store, last = view.store, view.base.version
    if last < 0:
        return
    first = kept_from(store, last)
    listed = (entry_version(one.key) for one in store.list_after(ENTRIES))
    apart = [version for version in listed if version is not None and version < first]
    keys = [entry_key(version) for version in apart]
    for version, body in zip(apart, store.get_many(keys), strict=True):
        if body is not None:
            yield decode(body, version).entry
    yield from (stored.entry for stored in read_entries(store, first, last, last))
