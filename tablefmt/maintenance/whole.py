"""The whole log, for work that decides what of it may go, by entries and blocks. Spec: HIS-2."""

from __future__ import annotations

from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.opening import check_not_ended, open_log
from tablefmt.store.protocol import Store


def whole_view(store: Store, *, ended: bool = False) -> LogView:
    """A view that knows every file there ever was, of all entries there are.

    From blocks where entries were put together: their bytes are as good. Who looks for damage reads
    the entries themselves (`LogView.open(whole=True)`).

    Args:
        store: the table's root.
        ended: take the log of a table that was dropped too.

    Raises:
        As `LogView.open`.
    """
    opened = open_log(store, whole=True, packed=True)
    view = LogView(store, opened.entries, opened.base, whole=True, asked=opened.asked)
    check_not_ended(store, view.head, ended)
    view.begins_anew = ended
    return view
