"""The logs that this process has read for Spark: kept, so that the next call reads what is new.

Each `write`, `read` and statement of SQL opens its table by name; reading the whole log each time
would cost more than the commit. A log that is kept is never taken on trust: the newest entry known
has to be there as it was, and its chain of digests (LOG-1) vouches for all before it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from tablefmt.errors import CorruptTableError, TableNotFoundError
from tablefmt.log.codec import digest
from tablefmt.log.names import entry_key
from tablefmt.operations.auto_compact import watch
from tablefmt.session.context import TableContext
from tablefmt.snapshot.load import LogView
from tablefmt.spark.columns.evolution import note
from tablefmt.store.protocol import Store

KEPT = 8
"""Tables whose log is kept: those used last."""

_views: OrderedDict[Hashable, LogView] = OrderedDict()
_keeping = threading.Lock()


def open_context(store: Store, *, explain: bool = True) -> TableContext:
    """The table at the root of a store, at its newest version. One round if nothing is new.

    Args:
        store: where.
        explain: as of `LogView.open`.

    Raises:
        TableNotFoundError, CorruptTableError, UnsupportedFeatureError: as `LogView.open`.
    """
    key = _key(store)
    with _keeping:
        view = _views.get(key)
    if view is None or not _brought_up_to_date(view):
        view = LogView.open(store, explain=explain)
    if key is not None:
        with _keeping:
            _views[key] = view
            _views.move_to_end(key)
            while len(_views) > KEPT:
                _views.popitem(last=False)
    context = TableContext(store, view)
    context.changed = note
    watch(context)
    return context


def open_if_there(store: Store) -> TableContext | None:
    """The same; None if there is no table."""
    try:
        return open_context(store, explain=False)
    except TableNotFoundError:
        return None


def _key(store: Store) -> Hashable:
    """Place and credentials; None for what cannot be told apart, which is not kept."""
    if not hasattr(store, "access"):
        return store.identity
    access = store.access()
    return None if access.untranslated else (store.identity, access)


def _brought_up_to_date(view: LogView) -> bool:
    """Take in what is new; False if what was read is there no more, was dropped, or damaged."""
    known = view.head
    body, newer = view.store.get_many([entry_key(known.version + i) for i in (0, 1)])
    if view.damaged or known.ended or body is None or digest(body) != known.digest:
        return False
    try:
        if newer is not None:
            view.refresh()
    except CorruptTableError:
        # Of this table or of another in its place: a reader with no memory tells which.
        return False
    return True
