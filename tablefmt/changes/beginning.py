"""First version of a table: earlier versions may belong to a dropped table. Spec: INC-1."""

from __future__ import annotations

from tablefmt.snapshot.load import LogView


def begins_with(view: LogView, version: int) -> bool:
    """Return True if a known version created the table, without rows, after another was dropped
    (ENT-14).

    Version 0 always did. For any other version, the function reads the entry.
    """
    if version == 0:
        return True
    (stored,) = view.entries_after(version - 1, version)
    entry = stored.entry
    # Only the end of the previous table makes an entry keep no version before its own.
    return entry.horizon is None and entry.totals.oldest == version and entry.add is None
