"""Tables whose partitioning changed without a rewrite (spec/evolution.md)."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    ConcurrentModificationException,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.operations import repartition
from tablefmt.operations.alter import alter
from tests.operations.evolving_table import (
    COLUMNS,
    Model,
    Row,
    conditions,
    counted,
    partition_of,
    plain,
)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_equal_plain_rows(seed: int, mode: str) -> None:
    model = Model(seed, f"memory://evolved-{uuid.uuid4().hex}", deleteMode=mode)
    for _ in range(14):
        model.step()
        model.check()
    fresh = tablefmt.open(model.table.uri)
    for version, (names, rows) in model.versions.items():
        assert counted(fresh.to_arrow(version=version).to_pylist()) == counted(rows), version
        past = fresh.context.view.metadata_at(version).partition_names
        assert sorted(past) == sorted(names)
    report = fresh.verify(deep=True)
    assert report.ok, report.findings
    # Changes of all versions lead from no rows to those of the newest version.
    total: Counter[str] = Counter()
    for each in fresh.changes(after_version=0).to_arrow().to_pylist():
        came = each["_change_type"] in ("insert", "update_postimage")
        (text,) = counted([each])
        total[text] += 1 if came else -1
    assert {text: count for text, count in total.items() if count} == counted(model.rows)


def ids(table: tablefmt.Table, **given: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["id"], **given)["id"].to_pylist())


@pytest.fixture
def evolved(tmp_path: Path) -> tablefmt.Table:
    """A table by region, then by region and day, then by day."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["region"])
    table.append([*plain(range(3)), *plain(range(3, 6), "US", 1), *plain(range(6, 7), None, 2)])
    table.alter.set_partitioning(["region", "days(ts)"])
    table.append([*plain(range(10, 12)), *plain(range(12, 14), "US", 1)])
    table.alter.set_partitioning("days(ts)")
    table.append([*plain(range(20, 22)), *plain(range(22, 24), "US", 1)])
    return table


def opened(table: tablefmt.Table, where: str) -> int:
    return int(table.scan(where=where).survivors.num_rows)


def test_each_file_is_pruned_by_its_own_values(evolved: tablefmt.Table) -> None:
    """EVO-3: values of an older partitioning decide; then bounds do, or nothing does."""
    assert evolved.scan().survivors.num_rows == 7
    assert opened(evolved, "region = 'EU'") == 3
    assert opened(evolved, "region IS NULL") == 1
    assert opened(evolved, "region = 'FR'") == 0
    assert opened(evolved, "ts < TIMESTAMP '2026-01-02 00:00:00+00:00'") == 3
    assert ids(evolved, where="region = 'US'") == [3, 4, 5, 12, 13, 22, 23]


def test_partitions_say_how_their_files_are_partitioned(evolved: tablefmt.Table) -> None:
    found = {
        (each["partitioned_by"], each["partition"]["region"], str(each["partition"]["ts_day"])):
        (each["files"], each["rows"])
        for each in evolved.scan().partitions().to_pylist()
    }  # fmt: skip
    assert found == {
        ("region", "EU", "None"): (1, 3),
        ("region", "US", "None"): (1, 3),
        ("region", None, "None"): (1, 1),
        ("region, days(ts)", "EU", "2026-01-01"): (1, 2),
        ("region, days(ts)", "US", "2026-01-02"): (1, 2),
        ("days(ts)", None, "2026-01-01"): (1, 2),
        ("days(ts)", None, "2026-01-02"): (1, 2),
    }
    files = evolved.scan().files()
    assert files["partitioned_by"].to_pylist()[:3] == ["region"] * 3


def test_older_files_lose_rows_and_newer_ones_go_whole(evolved: tablefmt.Table) -> None:
    """EVO-4: metadata decides only where every file has the value."""
    evolved.delete("region = 'EU' AND ts < TIMESTAMP '2026-01-02 00:00:00+00:00'")
    assert ids(evolved) == [3, 4, 5, 6, 12, 13, 22, 23]
    evolved.overwrite(plain(range(30, 31), "FR", 1), dynamic_partitions=True)
    assert ids(evolved) == [6, 30]
    commit = evolved.repartition()
    assert commit.metrics["numAddedFiles"] == 1
    assert evolved.repartition().no_op
    # Now the day decides again: no file is opened for a delete.
    assert evolved.delete("ts >= TIMESTAMP '2026-01-03 00:00:00+00:00'").metrics["numDeletedRows"]
    assert ids(evolved) == [30]
    metadata = evolved.context.view.head.metadata
    assert list(metadata.partitionings.values()) == [metadata.partition_by]


def test_a_shared_field_decides_by_metadata(tmp_path: Path) -> None:
    """EVO-3: with one more field, partitions by the older ones are replaced as a whole."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["region"])
    table.append([*plain(range(3)), *plain(range(3, 6), "US")])
    table.alter.set_partitioning(["region", "bucket(2, id)"])
    table.append(plain(range(6, 8)))
    commit = table.overwrite(plain(range(10, 11)), where="region = 'EU'")
    entry = table.history(1).to_pylist()[0]
    assert (commit.version, entry["operation"]) == (4, "OVERWRITE")
    assert ids(table) == [3, 4, 5, 10]
    files = table.scan().files().to_pylist()
    assert all(each["deleted"] == 0 for each in files)


def test_an_append_begins_again_under_the_new_partitioning(tmp_path: Path) -> None:
    """CFL-5: one handle changes the partitioning while another one appends."""
    path = str(tmp_path / "t")
    table = tablefmt.create(path, COLUMNS, partition_by=["region"])
    other = tablefmt.open(path)
    table.append(plain(range(2)))
    table.alter.set_partitioning(["days(ts)"])
    other.append(plain(range(2, 4)))
    fresh = tablefmt.open(path)
    assert ids(fresh) == [0, 1, 2, 3]
    listed = fresh.scan().files()["partitioned_by"].to_pylist()
    assert listed == ["region", "days(ts)"]


def test_a_change_of_the_partitioning_conflicts_with_statements_that_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = tablefmt.create(path, COLUMNS, partition_by=["region"])
    table.append(plain(range(4)))
    waiting = table.transaction().delete("id = 1")
    tablefmt.open(path).alter.set_partitioning([])
    with pytest.raises(ConcurrentModificationException):
        waiting.commit()
    # The other order: the change follows the delete.
    change = table.transaction()
    change.alter.set_partitioning(["bucket(3, id)"])
    tablefmt.open(path).delete("id = 2")
    change.commit()
    assert ids(tablefmt.open(path)) == [0, 1, 3]


def test_a_restore_keeps_the_numbers_of_files_that_stay(tmp_path: Path) -> None:
    """EVO-6: numbers of the version are those in force, and files come back under them."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["region"])
    table.append(plain(range(2)))  # 1
    table.alter.set_partitioning(["days(ts)"])  # 2
    table.append(plain(range(2, 4)))  # 3
    table.repartition()  # 4, 5: only number 1 is left
    table.alter.set_partitioning([])  # 6: number 2
    table.restore(version=3)
    assert ids(table) == [0, 1, 2, 3]
    metadata = table.context.view.head.metadata
    assert sorted(map(len, metadata.partitionings.values())) == [1, 1]
    assert metadata.partitionings[1] == metadata.partition_by
    table.restore(version=1)
    assert (table.partition_by, ids(table)) == (["region"], [0, 1])
    assert tablefmt.open(table.uri).scan(where="region = 'US'").survivors.num_rows == 0


def test_names_of_hidden_fields_stay_apart(tmp_path: Path) -> None:
    """HID-2: an older partitioning has the usual name."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["bucket(4, id)"])
    table.append(plain(range(4)))
    table.alter.set_partitioning(["bucket(8, id)"])
    table.append(plain(range(4, 8)))
    names = [f.name for f in table.context.view.head.metadata.all_partition_fields]
    assert names == ["id_bucket_2", "id_bucket"]
    assert [ids(table, where=f"id = {n}") for n in range(8)] == [[n] for n in range(8)]


def test_a_hidden_field_gets_a_name_and_another_one(tmp_path: Path) -> None:
    """HID-2: the name is Iceberg's, the given one, or the one of a later change."""

    def fields() -> list[str]:
        metadata = tablefmt.open(table.uri).context.view.head.metadata
        return [f.name for f in metadata.all_partition_fields]

    where = str(tmp_path / "t")
    table = tablefmt.create(where, COLUMNS, partition_by=["bucket(4, id) AS shard", "days(ts)"])
    table.append(plain(range(4)))
    assert (table.partition_by, fields()) == (["bucket(4, id)", "days(ts)"], ["shard", "ts_day"])
    assert table.alter.set_partitioning(["days(ts)", "bucket(4, id) AS shard"]).no_op
    table.alter.set_partitioning(["bucket(4, id) AS part", "days(ts)"])
    table.append(plain(range(4, 8)))
    assert fields() == ["part", "ts_day"]
    assert table.scan().partitions().schema.field("partition").type.names == ["part", "ts_day"]
    table.alter.set_partitioning(["bucket(8, id)"])
    table.append(plain(range(8, 12)))
    assert fields() == ["id_bucket", "part", "ts_day"]
    table.alter.set_partitioning(["bucket(4, id) AS `x AS y`", "region"])
    assert fields() == ["x AS y", "region", "ts_day", "id_bucket"]
    for text, words in (
        ("bucket(8, id) AS region", "has the name of the partition field"),
        ("bucket(9, id) AS `X as Y`", "would both have"),
        ("region AS area", "keeps its own name"),
        ("bucket(8, id) AS", "no such column"),
        ("bucket(8, id) AS ``", "no such column"),
    ):
        with pytest.raises(SchemaMismatchError, match=words):
            table.alter.set_partitioning([text])
    table.restore(version=1)
    assert (ids(table), table.partition_by) == ([0, 1, 2, 3], ["bucket(4, id)", "days(ts)"])
    assert fields()[:2] == ["shard", "ts_day"]
    table.restore(version=5)
    assert [ids(table, where=f"id = {n}") for n in range(12)] == [[n] for n in range(12)]
    assert table.verify(deep=True).ok


def test_a_copy_has_the_present_name_of_a_field(tmp_path: Path) -> None:
    """XPT-23, HID-2: in every spec of the copy."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["bucket(4, id)"],
                            properties={"export": "iceberg"})  # fmt: skip
    table.append(plain(range(4)))
    table.export("iceberg")
    table.alter.set_partitioning(["bucket(4, id) AS shard"])
    table.append(plain(range(4, 6)))
    assert table.export("iceberg").shown == table.version
    copies = sorted((tmp_path / "t" / "metadata").glob("*.metadata.json"))
    specs = json.loads(copies[-1].read_text())["partition-specs"]
    assert [[f["name"] for f in spec["fields"]] for spec in specs] == [["shard"]]


def test_what_is_refused(tmp_path: Path) -> None:
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=["region"])
    table.append(plain(range(4)))
    before = table.version
    for wrong in (["regio"], ["region", "region"], ["weeks(ts)"], list("xyz")):
        with pytest.raises(SchemaMismatchError):
            table.alter.set_partitioning(wrong)
    assert table.alter.set_partitioning(["region"]).no_op
    assert table.version == before
    table.alter.set_partitioning(["days(ts)"])
    for column in ("region", "ts"):
        with pytest.raises(SchemaMismatchError, match="partitioned by"):
            table.alter.drop_column(column)
    table.alter.rename_column("region", "area")
    assert ids(table, where="area = 'EU'") == [0, 1, 2, 3]
    table.repartition()
    table.alter.drop_column("area")
    assert ids(table, where="ts IS NOT NULL") == [0, 1, 2, 3]


def test_a_clustering_column_does_not_partition(tmp_path: Path) -> None:
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, cluster_by=["region"])
    with pytest.raises(SchemaMismatchError, match="region"):
        table.alter.set_partitioning(["region"])


def test_imported_files_keep_the_columns_of_their_folders(tmp_path: Path) -> None:
    """DAT-8: an imported file may lack the column."""
    import pyarrow.dataset as ds

    rows = pa.table({"id": [1, 2], "region": ["EU", "US"]})
    where = tmp_path / "hive"
    ds.write_dataset(rows, where, format="parquet", partitioning=["region"],
                     partitioning_flavor="hive")  # fmt: skip
    table = tablefmt.import_table(str(where), "parquet")
    table.alter.set_partitioning(["region", "bucket(2, id)"])
    table.append([{"id": 3, "region": "EU"}])
    assert ids(table, where="region = 'EU'") == [1, 3]
    with pytest.raises(UnsupportedFeatureError, match="imported files"):
        table.alter.set_partitioning(["bucket(2, id)"])
    table.compact(kind="major")
    table.alter.set_partitioning(["bucket(2, id)"])
    assert ids(table, where="region = 'EU'") == [1, 3]


def test_a_repartition_keeps_a_partitioning_that_came_meanwhile(
    evolved: tablefmt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last commit drops what no file has, and sets nothing."""
    real = alter

    def late(*given: Any, **options: Any) -> Any:
        tablefmt.open(evolved.uri).alter.set_partitioning(["bucket(4, id)"])
        return real(*given, **options)

    monkeypatch.setattr(repartition, "alter", late)
    before = ids(evolved)
    evolved.repartition()
    after = tablefmt.open(evolved.uri)
    assert after.partition_by == ["bucket(4, id)"]
    assert ids(after) == before
    assert after.verify(deep=True).ok


@pytest.mark.parametrize("first", [["x"], ["region"]])
def test_a_shallow_clone_finds_zeros_of_every_partitioning(
    tmp_path: Path, first: list[str]
) -> None:
    """IMP-4: 0.0 and -0.0 are one partition, and a clone must not show one for the other."""
    table = tablefmt.create(str(tmp_path / "t"), COLUMNS, partition_by=first)
    table.append([{**each, "x": -0.0} for each in plain(range(1))])
    table.alter.set_partitioning(["region" if first == ["x"] else "x"])
    table.append([{**each, "x": 2.0} for each in plain(range(1, 3))])
    if first == ["x"]:
        with pytest.raises(UnsupportedFeatureError, match="IMP-4"):
            table.clone(str(tmp_path / "c"), shallow=True)
        return
    table.clone(str(tmp_path / "c"), shallow=True)
    opened = tablefmt.open(
        str(tmp_path / "c"), storage_options={"import_roots": [str(tmp_path / "t")]}
    )
    assert ids(opened) == [0, 1, 2]


def test_two_transactions_end_as_one_after_the_other() -> None:
    """CFL-19: whatever partitionings files have, both commit only if an order explains it."""
    dice = random.Random(0)
    outcomes: set[bool] = set()
    for _ in range(14):
        model = Model(dice.randrange(1 << 30), f"memory://evolved-{uuid.uuid4().hex}")
        for action in (model.append, model.alter, model.append, model.alter, model.append):
            action()
        statements = [statement(model, dice), statement(model, dice)]
        works = [model.table.transaction() for _ in statements]
        for work, (begin, _) in zip(works, statements, strict=True):
            begin(work)
        works[0].commit()
        effects = [effect for _, effect in statements]
        try:
            works[1].commit()
            orders = [effects, effects[::-1]]
        except ConcurrentModificationException:
            orders = [effects[:1]]
        outcomes.add(len(orders) == 2)
        found = counted(tablefmt.open(model.table.uri).to_arrow().to_pylist())
        assert found in [counted(after(model.rows, order)) for order in orders]
    assert outcomes == {True, False}


def after(rows: list[Row], effects: list[Callable[[list[Row]], list[Row]]]) -> list[Row]:
    for effect in effects:
        rows = effect(rows)
    return rows


def statement(
    model: Model, dice: random.Random
) -> tuple[Callable[[Any], Any], Callable[[list[Row]], list[Row]]]:
    """Return a statement for a transaction, and its effect on plain rows."""
    where, test = conditions(dice)
    kind = dice.choice(("delete", "update", "replace", "append"))
    if kind == "delete":
        return lambda t: t.delete(where), lambda rows: [r for r in rows if not test(r)]
    if kind == "update":
        return (
            lambda t: t.update({"x": "7"}, where),
            lambda rows: [{**r, "x": 7.0} if test(r) else r for r in rows],
        )
    new = model.fresh(2)
    if kind == "append":
        return lambda t: t.append(new), lambda rows: [*rows, *new]
    names = list(model.names)
    gone = {partition_of(names, r) for r in new}
    return (
        lambda t: t.overwrite(new, dynamic_partitions=True),
        lambda rows: [*(r for r in rows if names and partition_of(names, r) not in gone), *new],
    )
