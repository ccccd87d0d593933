"""History of tables whose versions, or entries, were given up: what it shows, and what it asks."""

from __future__ import annotations

import pytest

from tablefmt.log.object_names import entry_key
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import Clock, Dated, behind, handle, new_table, rows

HOUR = 3600


def given_up(how: str) -> tuple[Table, Store, Clock]:
    """Versions 0 to 9; the earliest that can be read is 6."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(5):
        table.append(rows(number))
    table.overwrite(rows(9))
    clock.forward(24 * HOUR)
    table.append(rows(10))
    if how == "expired":
        table.expire_log(retention="4 hours", dry_run=False, breaks_running_transactions=True)
    else:
        table.vacuum(retention="4 hours", dry_run=False, breaks_running_transactions=True)
    while table.refresh().version < 9:
        table.append(rows(100))
    return table, store, clock


@pytest.mark.parametrize("how", ["vacuumed", "expired"])
def test_a_limit_is_one_of_requests_too(how: str) -> None:
    """RET-9, ENT-13: the log is listed only for versions whose entries may have expired."""
    table, store, _ = given_up(how)
    oldest, newest = table.oldest_version, table.version
    whole = table.history().to_pylist()
    first = whole[-1]["version"]
    assert first == (0 if how == "vacuumed" else oldest)
    assert [row["canBeRead"] for row in whole] == [row["version"] >= oldest for row in whole]
    for limit in range(newest + 3):
        counting = CountingStore(store)
        looking = behind(table, counting)
        counting.reset()
        assert looking.history(limit=limit).to_pylist() == whole[:limit]
        gone = [("list_after", "_log/0")] if newest + 1 - limit < oldest else []
        versions = range(max(first, newest + 1 - limit), newest + 1)
        entries = [("get", entry_key(version)) for version in versions]
        assert counting.requests == [("get", entry_key(newest + 1)), *gone, *entries]
        assert handle(store).history(limit=limit).to_pylist() == whole[:limit]
