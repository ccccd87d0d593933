"""Source cursors at any version of a log. Spec: RPL-7."""

from __future__ import annotations

from tablefmt.snapshot.cursors import Cursors
from tablefmt.snapshot.load import LogView


def cursors_at(view: LogView, version: int) -> Cursors:
    """Return the cursors at a known version. For a table without cursors, this reads nothing.

    Raises:
        CorruptTableError: an entry that was read before is missing.
    """
    head = view.read_head
    # Cursors are never removed, so no cursor now means none before.
    if version == head.version or not head.cursors:
        return head.cursors
    return view.of_version(version).cursors(version)
