"""Copies of a table that is dropped with its data (XPT-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablefmt
from tablefmt import Table
from tablefmt.errors import ExportBlockedError, ForeignTableError, TablefmtError
from tablefmt.export import delta_target
from tablefmt.export.table_export import TARGETS, target_of
from tablefmt.maintenance import drop as drop_module
from tablefmt.maintenance.drop import drop_at
from tablefmt.session.commit_options import CommitOptions
from tablefmt.store.location_checks import COPY_STARTS
from tablefmt.store.object_store import Store
from tablefmt.testing.faults import FaultyStore, Killed
from tests.export.test_export_faults import copied, history
from tests.imports.sources import contents, hive
from tests.tables import contents_of, ids, new_table, rows


def keys_of(store: Store) -> set[str]:
    """Return all keys but those of the log."""
    return {one.key for one in store.list_after("") if not one.key.startswith("_log/")}


def exported(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table with copies in both formats, with checkpoints and vectors of both."""
    monkeypatch.setattr(delta_target, "CHECKPOINT_EVERY", 2)
    table = history()
    table.export("delta", start=1)
    table.alter.set_properties({"export.iceberg.format": "3"})
    table.export("iceberg", start=3)
    return table


def drop(store: Store) -> None:
    """Drop the table of a store with its data."""
    drop_at(store, CommitOptions(), delete_data=True)


def test_a_drop_with_the_data_leaves_only_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table can be created in the same place then, and not before."""
    table = exported(monkeypatch)
    store = table.context.store
    kinds = {key.rpartition(".")[2] for key in copied(store)}
    assert kinds == {
        "json",
        "parquet",
        "bin",
        "avro",
        "puffin",
        "text",
        "_delta_log/_last_checkpoint",
    }
    drop_at(store, CommitOptions())
    with pytest.raises(
        ForeignTableError, match=r"that a tablefmt table exported.*delete_data=True"
    ):
        new_table(store)
    drop(store)
    assert keys_of(store) == set()
    again = new_table(store)
    again.append(rows(1))
    again.export("delta")
    assert ids(again) == [1]


def test_it_goes_on_where_it_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each request. Nothing but the log is left, and the table is there or was dropped."""
    table = exported(monkeypatch)
    store, whole = table.context.store, {}
    whole = contents_of(store)
    for at in range(500):
        for one in list(store.list_after("")):
            store.delete(one.key)
        for key, body in whole.items():
            store.put(key, body)
        faulty = FaultyStore(store, lambda n, verb, key, at=at: "kill_after" if n == at else None)
        try:
            drop(faulty)
        except (Killed, TablefmtError):
            drop(store)
        assert keys_of(store) == set(), at
        if not faulty.fired:
            break
    else:
        raise AssertionError("it was never dropped without a fault")
    assert at > 20


@pytest.mark.parametrize(
    ("to", "key"),
    [
        ("delta", "_delta_log/00000000000000000009.json"),
        ("delta", "_delta_log/00000000000000000009.checkpoint.parquet"),
        ("delta", "_delta_log/00000000000000000003.crc"),
        ("iceberg", "metadata/v8.metadata.json"),
        ("iceberg", "metadata/00009-5f0c.metadata.json"),
    ],
)
def test_what_another_program_wrote_blocks_it(
    monkeypatch: pytest.MonkeyPatch, to: str, key: str
) -> None:
    """The table stays, with all its files. Without its data, it can be dropped."""
    table = exported(monkeypatch)
    store = table.context.store
    store.put(key, b"{}\n")
    before = {one.key for one in store.list_after("")}
    with pytest.raises(ExportBlockedError) as refused:
        drop(store)
    assert (refused.value.target, refused.value.path) == (to, key)
    assert {one.key for one in store.list_after("")} == before
    drop_at(store, CommitOptions())
    with pytest.raises(ExportBlockedError):
        drop(store)
    assert {one.key for one in store.list_after("")} - before == {"_log/00000000000000000006.json"}


def test_a_copy_of_a_lost_history_blocks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has a version that the log lacks, as after a restore of a backup."""
    table = exported(monkeypatch)
    store = table.context.store
    store.delete("_log/00000000000000000005.json")
    with pytest.raises(ExportBlockedError, match="no version 5; was it restored"):
        drop(store)


def test_sources_and_their_metadata_stay(tmp_path: Path) -> None:
    """An imported table's own files stay, and so does metadata of no copy."""
    hive(tmp_path / "t")
    before = contents(tmp_path / "t")
    table = tablefmt.import_table(tmp_path / "t")
    table.export("delta")
    (tmp_path / "t" / "metadata").mkdir()
    (tmp_path / "t" / "metadata" / "v1.metadata.json").write_text("{}")
    before["metadata/v1.metadata.json"] = b"{}"
    tablefmt.drop(tmp_path / "t", delete_data=True)
    assert contents(tmp_path / "t") == before


def test_the_check_of_a_place_knows_the_start_of_each_copy() -> None:
    """XPT-4, STO-23."""
    assert set(COPY_STARTS.values()) == {target_of(name).start_key for name in TARGETS}


def test_a_late_drop_leaves_the_copies_of_the_next_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, real, calls = str(tmp_path / "t"), drop_module._remove, []

    def made(number: int) -> Table:
        table = tablefmt.create(uri, "id BIGINT")
        table.append([{"id": number}])
        for target in ("delta", "iceberg"):
            table.export(target)
        return table

    made(1)
    kept = []

    def late(store: Store, keys: list[str]) -> None:
        real(store, keys)
        calls.append(len(keys))
        if len(calls) == 1:
            tablefmt.drop(uri, delete_data=True)
            made(2)
            kept.append(keys_of(store))

    monkeypatch.setattr(drop_module, "_remove", late)
    tablefmt.drop(uri, delete_data=True)
    table = tablefmt.open(uri)
    assert keys_of(table.context.store) == kept[0]
    assert table.to_arrow().to_pylist() == [{"id": 2}]
    assert table.export("delta").version == table.version
