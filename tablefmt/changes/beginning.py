"""Whether a table begins with a version: what was there before is another table's. Spec: INC-1."""

from __future__ import annotations

from tablefmt.snapshot.load import LogView


def begins_with(view: LogView, version: int) -> bool:
    """Whether a known version made the table, with no rows: where another one was dropped (ENT-14).

    Version 0 is known to; of another one the entry is looked at.
    """
    if version == 0:
        return True
    (stored,) = view.entries_after(version - 1, version)
    entry = stored.entry
    # A version gives itself up to nothing but the end of the table that was there before.
    return entry.horizon is None and entry.totals.oldest == version and entry.add is None
