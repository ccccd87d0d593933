"""A log whose beginning was given up is verified by what is left of it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from pyroaring import BitMap64

from tablefmt.cli.table_commands import difference
from tablefmt.errors import TablefmtError
from tablefmt.log.codec import decode, encode
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.verify import verify
from tablefmt.model.log_entry import AddedFiles, Lineage, Operation, OperationClass
from tablefmt.model.positions import DeletionVector, row_deletes
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tests.compactions import MINOR, compact
from tests.snapshot.grown import grow
from tests.tables import Clock, Dated, handle, ids, new_table, next_entry, rows

DAY = 86_400.0
ALL = DeletionVector(deleted=BitMap64([0]), updated=BitMap64())
"""The only row of a file."""


def kept_roots(store: Store, version: int) -> list[str]:
    """The checkpoints that an entry names."""
    horizon = decode(store.get(entry_key(version)), version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    return [one.path for one in horizon.log.checkpoints]


@pytest.mark.parametrize("left", [0, 1])
def test_deleted_rows_of_removed_files(left: int) -> None:
    """CKP-3, DEL-4: a part of `deletes` that was used again speaks of them, and means nothing."""
    store = Dated(clock := Clock())
    table = new_table(store, partitioned=True, clock=clock)
    table.append(rows(1, 2, 3, p="a"))
    table.append(rows(4, 5, 6, p="b"))
    table.delete("id = 1 OR id = 4")
    table.checkpoint()
    table.overwrite(rows(7, p="a"), where="p = 'a'")
    table.checkpoint()
    clock.forward(40 * DAY)
    table.delete("id = 5")
    run = table.expire_log(dry_run=False)
    assert run.deleted > 0
    store.delete(kept_roots(store, run.version)[1 - left])
    assert verify(store, deep=True).ok
    assert_all_work(store, clock)
    assert ids(handle(store, clock)) == [6, 7]


def test_lineage_of_files_from_before() -> None:
    """LIN-2, CFL-14: a compaction whose input had been removed, where the log begins between."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(4):
        table.append(rows(10 * number, 10 * number + 1))
    waiting = handle(store, clock).transaction()
    waiting.stage(compact(MINOR, lambda files: [files["id"].to_pylist()]))
    table.delete("id = 0 OR id = 1")
    removed = table.refresh().version
    clock.forward(3 * DAY)
    waiting.commit()
    clock.forward(28 * DAY)
    table.refresh().append(rows(50))
    run = handle(store, clock).expire_log(dry_run=False)
    assert run.oldest == removed
    assert verify(store, deep=True).ok
    assert_all_work(store, clock)
    assert ids(handle(store, clock)) == [10, 11, 20, 21, 30, 31, 50]


@pytest.mark.broken_tables
def test_rows_of_a_file_from_before_that_are_live_are_found() -> None:
    """LIN-2, CFL-14: a copy of the rows of a file that went before the log begins."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.overwrite(rows(5))
    clock.forward(40 * DAY)
    table.append(rows(6))
    handle(store, clock).expire_log(dry_run=False)
    view = LogView.open(store)
    model = view.snapshot().files.slice(0, 1)
    path = f"data/{'0' * 31}1/0-0.parquet"
    store.put(path, store.get(model["path"][0].as_py()))
    added = AddedFiles({"path": [path], "size": model["size"].to_pylist(), "rows": [1]})
    sums = view.head.totals
    totals = replace(
        sums,
        files=sums.files + 1,
        rows=sums.rows + 1,
        bytes=sums.bytes + model["size"][0].as_py(),
        next_id=sums.next_id + 1,
    )
    copied = Lineage(output=(0,), input=(1,), start=(0,), rows=(1,), dropped=(None,))
    for marks, deleted, sound in ((None, 0, False), (row_deletes({sums.next_id: ALL}), 1, True)):
        entry = next_entry(
            view,
            operation=Operation(name="UPDATE", cls=OperationClass.UPDATE),
            add=added,
            delete=marks,
            lineage=copied,
            totals=replace(totals, deleted=deleted),
        )
        store.put(entry_key(entry.version), encode(entry))
        found = [(f.object, f.rule) for f in verify(store).findings]
        assert found == ([] if sound else [(entry_key(entry.version), "LIN-2")])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, pytest.param(None, marks=pytest.mark.soak)])
def test_any_history_is_verified_after_it_was_expired(seed: int | None) -> None:
    """LOG-8, RET-9: `verify` finds nothing, and only errors of the package are raised."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print("seed", seed)
    chance, store = random.Random(seed), Dated(clock := Clock())
    table = new_table(store, partitioned=chance.random() < 0.5, clock=clock)
    table.alter.add_column("n", "int")
    for _ in range(4):
        grow(table, chance, 5)
        clock.forward(chance.choice([0, 10]) * DAY)
        table.checkpoint()
    clock.forward(35 * DAY)
    grow(table, chance, 4)
    assert handle(store, clock).expire_log(dry_run=False).deleted > 0
    grow(handle(store, clock), chance, 2)
    report = verify(store, deep=True)
    assert report.ok, str(report)
    assert_all_work(store, clock)


def assert_all_work(store: Store, clock: Clock) -> None:
    """Check that reads of the history return an answer or an error of the package."""
    table = handle(store, clock)
    assert table.history().num_rows == table.version - table.oldest_version + 1
    for after in range(-1, table.version):
        try:
            table.changes(after_version=after).to_arrow()
        except TablefmtError:
            assert after < table.oldest_version
    newest = table.context.view.snapshot()
    for version in range(table.oldest_version, table.version + 1):
        assert difference(table.context.view.snapshot(version), newest)
