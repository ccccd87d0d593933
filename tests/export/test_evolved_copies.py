"""Copies of tables whose partitioning changed (XPT-7, XPT-23, XPT-25, XPT-26, EVO-1)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    IsNaN,
    IsNull,
    LessThan,
    Or,
    StartsWith,
)
from pyiceberg.table import StaticTable

import tablefmt
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.export.export_check import copy_problems, iceberg_files
from tablefmt.export.export_run import Exporter
from tablefmt.export.iceberg_metadata import metadata_key
from tablefmt.export.iceberg_target import IcebergTarget
from tablefmt.operations.create import create
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Request, Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.export.foreign_readers import delta_rs
from tests.export.iceberg_readers import DuckDBIceberg, Polars, PyIceberg, metadata_file
from tests.operations.evolving_table import (
    COLUMNS,
    Model,
    Test,
    counted,
    evolving,
    later,
    plain,
)
from tests.tables import contents_of

Read = Callable[[str, int], pa.Table]


def exporter(store: Store, form: str = "auto") -> Exporter:
    return Exporter(store, IcebergTarget(form), sleep=lambda seconds: None)


def path_of(table: Table) -> str:
    return str(table.uri).removeprefix("file://")


@pytest.fixture(scope="module", params=["2", "3"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The table of `later`, whose copy follows each commit."""
    path = str(tmp_path_factory.mktemp("evolved") / "t")
    properties = {"export": "iceberg", "export.iceberg.format": request.param}
    return later(evolving(open_store(path), **properties))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyiceberg", "polars", "duckdb"])
def test_every_version_reads_right(both: Table, name: str, tmp_path: Path) -> None:
    """XPT-23, XPT-26: rows of files of every partitioning, in readers by other projects."""
    duckdb = DuckDBIceberg(tmp_path, "avro", "iceberg") if name == "duckdb" else None
    others: dict[str, Read] = {"pyiceberg": PyIceberg().read, "polars": Polars().read}
    read = duckdb.read if duckdb else others[name]
    try:
        for version in range(both.version + 1):
            wanted = both.scan(version=version).to_arrow()
            found = read(path_of(both), version).select(wanted.column_names)
            assert as_region(found) == as_region(wanted), version
    finally:
        if duckdb:
            duckdb.close()


def as_region(rows: pa.Table) -> object:
    """Rows without their order."""
    names = ["region" if name == "area" else name for name in rows.column_names]
    return counted(rows.rename_columns(names).to_pylist())


def test_every_version_has_its_files(both: Table) -> None:
    """XPT-1, XPT-25: by the copy's own metadata, with one spec for each partitioning."""
    assert copy_problems(both.context.view, ("iceberg",)) == []
    for version in range(both.version + 1):
        made = orjson.loads(both.context.store.get(metadata_key(version)))
        assert made["properties"]["tablefmt.shown"] == str(version)
        files = both.scan(version=version).files().to_pylist()
        wanted = {one["path"]: (one["size"], one["deleted"]) for one in files}
        assert iceberg_files(both.context.store, version) == wanted, version
    specs = [[f["name"] for f in spec["fields"]] for spec in made["partition-specs"]]
    assert specs == [["region"], ["region", "ts_day"], ["ts_day"], []]
    assert made["default-spec-id"] == 2


def test_a_cold_exporter_makes_the_same_copy(both: Table) -> None:
    """XPT-1: one run over all versions, from a log or from a checkpoint, has the same bytes."""
    warm = contents_of(both.context.store, "metadata/")
    for key in warm:
        both.context.store.delete(key)
    cold = tablefmt.open(both.uri)
    exporter(cold.context.store).run(cold.context.view, start=0)
    again = contents_of(cold.context.store, "metadata/")
    assert {key for key in warm if warm[key] != again.get(key)} == set()
    assert again.keys() == warm.keys()


WHERE = (
    ("region = 'EU'", EqualTo("region", "EU"), 3),
    ("region IS NULL", IsNull("region"), 1),
    ("region = 'FR'", EqualTo("region", "FR"), 0),
    (
        "ts < TIMESTAMP '2026-01-02 00:00:00+00:00'",
        LessThan("ts", "2026-01-02T00:00:00+00:00"),
        3,
    ),
    (
        "region = 'US' AND ts < TIMESTAMP '2026-01-02 00:00:00+00:00'",
        And(EqualTo("region", "US"), LessThan("ts", "2026-01-02T00:00:00+00:00")),
        0,
    ),
    ("id = 22", EqualTo("id", 22), 1),
)


@pytest.mark.parametrize("form", ["2", "3"])
def test_readers_prune_each_file_by_its_own_partitioning(tmp_path: Path, form: str) -> None:
    """XPT-23, EVO-3: another reader opens as few files as this one."""
    table = evolving(open_store(str(tmp_path / "t")))
    exporter(table.context.store, form).run(table.context.view, start=0)
    copy = StaticTable.from_metadata(metadata_file(path_of(table), table.version))
    for where, condition, files in WHERE:
        assert table.scan(where=where).survivors.num_rows == files, where
        chosen = copy.scan(row_filter=condition)
        assert len(list(chosen.plan_files())) == files, where
        ours = table.to_arrow(where=where).to_pylist()
        assert counted(chosen.to_arrow().to_pylist()) == counted(ours), where


def test_deletes_of_many_files_have_one_delete_file_for_each_partition(tmp_path: Path) -> None:
    """XPT-26: a delete file has the spec of its data files, so readers apply it to no other."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["bucket(60, id)"])
    table.append(plain(range(400)))
    table.alter.set_partitioning(["bucket(110, id)"])
    table.append(plain(range(400, 1200)))
    table.delete("id % 2 = 1")
    exporter(table.context.store).run(table.context.view, start=0)
    copy = StaticTable.from_metadata(metadata_file(path_of(table), table.version))
    deletes = copy.inspect.delete_files()
    assert set(deletes["spec_id"].to_pylist()) == {0, 1}
    assert counted(copy.scan().to_arrow().to_pylist()) == counted(table.to_arrow().to_pylist())
    assert copy_problems(table.context.view, ("iceberg",)) == []


def test_a_copy_goes_on_after_older_entries_expired(tmp_path: Path) -> None:
    """XPT-1, ENT-13: the next foreign commit needs no entry from before the checkpoint."""
    table = evolving(open_store(str(tmp_path / "t")), export="iceberg")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
    fresh = tablefmt.open(table.uri)
    assert min(fresh.history()["version"].to_pylist()) > 2  # of the first change
    fresh.append(plain(range(70, 72)))
    fresh.delete("id IN (0, 71)")
    assert fresh.export("iceberg").shown == fresh.version
    found = PyIceberg().read(path_of(fresh), fresh.version)
    assert counted(found.to_pylist()) == counted(fresh.to_arrow().to_pylist())
    assert copy_problems(fresh.context.view, ("iceberg",)) == []


def test_a_change_back_to_transforms_of_then_has_their_spec(tmp_path: Path) -> None:
    """XPT-23: a hidden field that has another name now means what it meant."""
    table = Table(create(open_store(str(tmp_path / "t")), COLUMNS, partition_by=["bucket(4, id)"]))
    warm = exporter(table.context.store)
    table.append(plain(range(8)))
    table.alter.set_partitioning(["bucket(8, id)"])
    table.append(plain(range(8, 16)))
    table.alter.set_partitioning([])
    table.repartition()
    table.alter.set_partitioning(["bucket(8, id)"])
    table.append(plain(range(16, 24)))
    table.delete("id % 3 = 1")
    table.alter.set_partitioning(["region"])
    table.repartition()
    warm.run(table.context.view, start=0)
    assert copy_problems(table.context.view, ("iceberg",)) == []
    for version in range(table.version + 1):
        found = PyIceberg().read(path_of(table), version)
        wanted = table.to_arrow(version=version)
        assert counted(found.to_pylist()) == counted(wanted.to_pylist()), version


def test_a_copy_for_delta_shows_partitionings_that_state_the_same_columns(tmp_path: Path) -> None:
    """XPT-7: Delta has no transforms, and text is not stated."""
    columns = "id BIGINT, region STRING, ts TIMESTAMP, x DOUBLE, part INT"
    table = tablefmt.create(
        tmp_path / "t", columns, partition_by=["part", "region"], properties={"export": "delta"}
    )
    table.append([{**each, "part": each["id"] % 2} for each in plain(range(6))])
    table.alter.set_partitioning(["days(ts)", "part"])
    table.append([{**each, "part": each["id"] % 2} for each in plain(range(6, 9), None, 2)])
    table.delete("id IN (1, 7)")
    table.alter.set_partitioning(["part"])
    table.append([{"id": 10, "part": None}])
    assert table.export("delta").shown == table.version
    assert copy_problems(table.context.view, ("delta",)) == []
    for version in range(table.version + 1):
        wanted = table.to_arrow(version=version)
        found = delta_rs(path_of(table), version).select(wanted.column_names)
        assert found.cast(wanted.schema).sort_by("id") == wanted.sort_by("id"), version


def test_a_copy_for_delta_holds_until_the_older_files_are_rewritten(tmp_path: Path) -> None:
    """XPT-7: with `force`; without it, the change is refused by name."""
    table = tablefmt.create(
        tmp_path / "t", "id INT, part INT", partition_by=["part"], properties={"export": "delta"}
    )
    table.append(pa.table({"id": pa.array([1], pa.int32()), "part": pa.array([1], pa.int32())}))
    with pytest.raises(UnsupportedFeatureError, match="one partitioning"):
        table.alter.set_partitioning([])
    table.alter.set_partitioning([], force=True)
    table.append(pa.table({"id": pa.array([2], pa.int32()), "part": pa.array([1], pa.int32())}))
    assert table.export("delta").shown == 1
    assert "not partitioned by 'part'" in str(table.export("delta").held)
    assert delta_rs(path_of(table), table.version)["id"].to_pylist() == [1]
    table.repartition()
    assert table.export("delta").shown == table.version
    found = delta_rs(path_of(table), table.version)
    assert sorted(found["id"].to_pylist()) == [1, 2]


def test_one_more_file_costs_four_puts(tmp_path: Path) -> None:
    """XPT-20: with files of three partitionings too, once the partition spec is there."""
    store = CountingStore(open_store(str(tmp_path / "t")))
    table = evolving(store)
    warm = exporter(store)
    warm.run(table.context.view, start=0)
    for number in range(3):
        table.append(plain(range(100 + number, 101 + number)))
        before = store.tally.sums()
        assert warm.run(table.context.view).written == 1
        after = store.tally.sums()
        assert {k: after[k] - before[k] for k in after if after[k] != before[k]} == {Request.PUT: 4}


# PyIceberg 0.12 cannot compare a partition value of NULL, in tables that it wrote itself too.
CHOICES: tuple[tuple[BooleanExpression, Test], ...] = (
    (EqualTo("region", "EU"), lambda r: r["region"] == "EU"),
    (IsNull("region"), lambda r: r["region"] is None),
    (StartsWith("region", "EU"), lambda r: (r["region"] or "").startswith("EU")),
    (EqualTo("region", ""), lambda r: r["region"] == ""),
    (IsNull("ts"), lambda r: r["ts"] is None),
    (EqualTo("x", 0.0), lambda r: r["x"] == 0),
    (IsNaN("x"), lambda r: r["x"] is not None and r["x"] != r["x"]),
    *((EqualTo("id", n), lambda r, n=n: r["id"] == n) for n in range(0, 40, 7)),
)


@pytest.mark.parametrize(
    ("seed", "form"),
    [
        (0, "2"),
        (1, "3"),
        *(pytest.param(n, f, marks=pytest.mark.soak) for n in range(2, 12) for f in "23"),
    ],
)
def test_random_histories_read_right(seed: int, form: str, tmp_path: Path) -> None:
    """XPT-1, XPT-23, XPT-26: any change, any partitioning, every version, and conditions."""
    model = Model(seed, str(tmp_path / "t"), deleteMode="merge-on-read")
    warm = exporter(model.table.context.store, form)
    for _ in range(14):
        model.step()
        warm.run(tablefmt.open(model.table.uri).context.view, start=0)
    table = tablefmt.open(model.table.uri)
    assert copy_problems(table.context.view, ("iceberg",)) == []
    for version, (_, rows) in model.versions.items():
        found = PyIceberg().read(path_of(table), version)
        assert counted(found.to_pylist()) == counted(rows), version
    copy = StaticTable.from_metadata(metadata_file(path_of(table), table.version))
    dice = random.Random(seed)
    for how in (None, And, Or):
        for _ in range(8):
            (one, test), (other, also) = dice.choices(CHOICES, k=2)
            chosen = one if how is None else how(one, other)
            wanted = [
                r
                for r in model.rows
                if (test(r) if how is None else (all if how is And else any)([test(r), also(r)]))
            ]
            assert counted(copy.scan(row_filter=chosen).to_arrow().to_pylist()) == counted(wanted)
    made = contents_of(table.context.store, "metadata/")
    for key in made:
        table.context.store.delete(key)
    table.checkpoint()
    again = tablefmt.open(table.uri)
    exporter(again.context.store, form).run(again.context.view, start=0)
    assert contents_of(again.context.store, "metadata/") == made
