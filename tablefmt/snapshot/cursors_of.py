"""How far pipes had come at any version of a log. Spec: RPL-7."""

from __future__ import annotations

from tablefmt.snapshot.cursors import NO_CURSORS, Cursors
from tablefmt.snapshot.load import LogView


def cursors_at(view: LogView, version: int) -> Cursors:
    """The cursors at a known version. Of a table that never had one nothing is read.

    Raises:
        CorruptTableError: what was read before is not there any more.
    """
    # One that there was once is never forgotten.
    if not view.read_head.cursors:
        return NO_CURSORS
    return view.of_version(version).cursors(version)
