"""Older versions that are given up, and logs without their first entries. Spec: ENT-13, LOG-8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tablefmt.errors import (
    ChangesExpiredError,
    CorruptEntryError,
    CorruptTableError,
    LogGapError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import (
    Basis,
    Entry,
    Operation,
    OperationClass,
    PartitionScope,
    RetentionHorizon,
    Totals,
)
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store, Written
from tablefmt.table import Table
from tests.tables import handle, ids, new_table, rows


def raise_horizon(store: Store, version: int) -> int:
    """Commit the entry that gives up what is below a version, as vacuum will."""
    head = handle(store).context.view.head
    entry = Entry(
        table=head.table,
        version=head.version + 1,
        timestamp=head.timestamp + 1,
        time_version=head.time_version,
        transaction="e" * 32,
        previous=head.digest,
        operation=Operation(name="VACUUM", cls=OperationClass.MINOR_COMPACT),
        basis=Basis(
            read_version=head.version,
            isolation="WriteSerializable",
            granularity="row",
            blind=False,
            scope=PartitionScope(()),
        ),
        totals=replace(head.totals, oldest=version),
        horizon=RetentionHorizon(version),
    )
    assert store.put_if_absent(entry_key(entry.version), encode(entry)) == Written()
    return entry.version


def appended(count: int, granularity: str = "row") -> Table:
    table = new_table(conflictGranularity=granularity)
    for value in range(1, count + 1):
        table.append(rows(value))
    return table


@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
def test_concurrent_writers_rebase_onto_a_horizon(granularity: str) -> None:
    """ENT-13: a running UPDATE, append and OVERWRITE rebase onto it."""
    table = appended(3, granularity)
    store = table.context.store
    update = handle(store).transaction().update({"p": "'b'"}, "id = 1")
    stale = handle(store)
    raise_horizon(store, 2)
    assert [int(v) for v in update.commit().rebased_over] == [4]
    stale.append(rows(9))
    handle(store).overwrite(rows(7))
    fresh = handle(store)
    assert fresh.context.view.head.totals.oldest == 2
    assert ids(fresh) == [7]
    assert ids(fresh, version=3) == [1, 2, 3]


def test_a_handle_that_was_open_learns_of_it() -> None:
    """ENT-13: the handle sees it at its next probe of the log.

    Its unread appends keep the horizon.
    """
    table = appended(3)
    store = table.context.store
    warm = handle(store)
    raise_horizon(store, 3)
    warm.append(rows(8))
    with pytest.raises(VersionNotFoundError) as caught:
        warm.to_arrow(version=2)
    assert (caught.value.oldest, caught.value.latest) == (3, 5)
    with pytest.raises(ChangesExpiredError) as expired:
        warm.changes(starting_version=3)
    assert expired.value.earliest_version == 4
    assert warm.changes(starting_version=4).to_arrow().num_rows == 1


@pytest.mark.parametrize(("first", "second"), [(2, 2), (2, 1), (2, 9)])
@pytest.mark.broken_tables
def test_a_horizon_only_rises(first: int, second: int) -> None:
    """ENT-13."""
    table = appended(3)
    raise_horizon(table.context.store, first)
    raise_horizon(table.context.store, second)
    with pytest.raises(CorruptEntryError) as caught:
        handle(table.context.store)
    assert caught.value.rule == "ENT-13"


@pytest.mark.parametrize("missing", [[1], [1, 2], list(range(1, 10)), [0, 1], [9]])
@pytest.mark.broken_tables
def test_a_beginning_that_was_given_up_is_no_gap(missing: list[int]) -> None:
    """LOG-8: a reader may begin at any version.

    Without a checkpoint the log is refused all the same. A missing entry from the horizon on is a
    gap, and so is version 0.
    """
    table = appended(12)
    store = table.context.store
    assert isinstance(store, MemoryStore)
    raise_horizon(store, 10)
    for version in missing:
        store.delete(entry_key(version))
    expected = LogGapError if 0 in missing else CorruptTableError
    with pytest.raises(expected) as caught:
        handle(store)
    assert caught.value.rule == ("LOG-2" if 0 in missing else "LOG-8")
    store.delete(entry_key(11))
    with pytest.raises(CorruptTableError):
        handle(store)


@pytest.mark.broken_tables
def test_a_missing_version_above_the_horizon_is_damage() -> None:
    """LOG-2, LOG-8: the version is at the horizon or above it.

    A log without a horizon is checked too.
    """
    for horizon in (0, 2):
        table = appended(5)
        store = table.context.store
        if horizon:
            raise_horizon(store, horizon)
        store.delete(entry_key(3))
        with pytest.raises(LogGapError) as caught:
            handle(store)
        assert caught.value.missing == 3


@pytest.mark.broken_tables
def test_a_gap_below_what_only_newer_versions_read_is_not_called_damage() -> None:
    """LOG-8, VER-2: the newest entry has what this version does not know."""
    table = appended(3)
    store = table.context.store
    head = handle(store).context.view.head
    totals = Totals(**{n: getattr(head.totals, n) for n in Totals.__dataclass_fields__})
    body: Any = encode(
        Entry(
            table=head.table,
            version=4,
            timestamp=head.timestamp + 1,
            time_version=head.timestamp + 1,
            transaction="d" * 32,
            previous=head.digest,
            operation=Operation(name="WRITE", cls=OperationClass.INSERT),
            basis=Basis(read_version=3, isolation="Serializable", granularity="row", blind=True),
            totals=totals,
            unknown={"parts": []},
        )
    )
    store.put_if_absent(entry_key(4), body)
    store.delete(entry_key(1))
    with pytest.raises(UnsupportedFeatureError) as caught:
        handle(store)
    assert caught.value.features == ["groupCommit"]
