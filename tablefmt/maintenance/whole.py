"""Views of the whole log, for decisions on what of it may go. Spec: HIS-2."""

from __future__ import annotations

from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.opening import check_not_ended, open_log
from tablefmt.store.protocol import Store


def whole_view(store: Store, *, ended: bool = False) -> LogView:
    """Return a view that knows every file of all existing entries.

    It reads compacted log segments where they exist, because their bytes are equivalent. A check
    for damage reads the entries themselves (`LogView.open(whole=True)`).

    Args:
        store: the table's root.
        ended: accept the log of a dropped table too.

    Raises:
        As `LogView.open`.
    """
    opened = open_log(store, whole=True, packed=True)
    view = LogView(store, opened.entries, opened.base, whole=True, asked=opened.asked)
    check_not_ended(store, view.head, ended)
    view.begins_anew = ended
    return view
