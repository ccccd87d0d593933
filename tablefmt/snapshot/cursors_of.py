"""How far pipes had come at any version of a log. Spec: RPL-7."""

from __future__ import annotations

from tablefmt.snapshot.cursors import Cursors
from tablefmt.snapshot.load import LogView


def cursors_at(view: LogView, version: int) -> Cursors:
    """The cursors at a known version. Of a table that never had one nothing is read.

    Raises:
        CorruptTableError: what was read before is not there any more.
    """
    head = view.read_head
    # One that there was once is never forgotten.
    if version == head.version or not head.cursors:
        return head.cursors
    return view.of_version(version).cursors(version)
