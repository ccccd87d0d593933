"""A clustering order as a setting of a table: definition, evolution, and incremental clustering."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import SchemaMismatchError
from tablefmt.operations import clustering_plan
from tablefmt.operations.clustering_plan import FAN_IN, plan_ordering
from tablefmt.operations.compact_plan import LayoutPlan
from tablefmt.operations.create import create
from tablefmt.table import Table, open_at
from tests.tables import Clock, memory


def inline_table(schema: str, **properties: str) -> Table:
    """A table of which background work runs at once."""
    environment = dataclasses.replace(Clock().environment(), aside=lambda work: work())
    store = memory()
    create(store, schema, (), properties, environment=environment)
    return open_at(store, environment)


FILE = 1000
"""Bytes of a file of the target size in tests of the plan."""


def files(*runs: list[tuple[Any, ...]]) -> pa.Table:
    """Files by run: (lower, upper) of one column, or (lower, upper, bytes, deleted)."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("id", "path", "size", "rows", "deleted", "added", "lower.1", "upper.1")
    }
    for added, run in enumerate(runs, 1):
        for file in run:
            lower, upper, size, deleted = (*file, *(FILE, 0)[len(file) - 2 :])
            values = (len(columns["id"]) + 1, "f", size, 100, deleted, added, lower, upper)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    types = {"path": pa.string()}
    return pa.table({n: pa.array(v, types.get(n, pa.int64())) for n, v in columns.items()})


def plan(table: pa.Table, by: str = "x BIGINT") -> LayoutPlan:
    """The plan for files whose first column is the order."""
    schema = tablefmt.create("memory://schema-of-a-plan", by, exist_ok=True).context.view
    return plan_ordering(table, {}, schema.head.metadata.schema.fields, 7, FILE)


def groups(table: pa.Table) -> list[list[int]]:
    """Ids of the files of each group."""
    return [group.files.tolist() for group in plan(table).groups]


IN_ORDER = [(n, n + 1) for n in range(8)]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([[(0, 9, 10)]], [], id="one small file"),
        pytest.param([[(0, 9, 10)], [(0, 9, 10)]], [[1, 2]], id="two small files"),
        pytest.param([IN_ORDER], [], id="a sorted run"),
        pytest.param([[(0, 9)] * 8], [[*range(1, 9)]], id="an unsorted run"),
        pytest.param([[(5, 5)] * 8], [], id="one value"),
        pytest.param([[(None, None)] * 8], [], id="without bounds"),
        pytest.param([IN_ORDER, [(0, 9, 10)]], [], id="a sorted run and a small file"),
        pytest.param(
            [IN_ORDER, [(0, 9, 10)], [(3, 5, 10)]], [[9, 10]], id="a sorted run and small files"
        ),
        pytest.param([[(0, 9)]] * (FAN_IN - 1), [], id="few runs"),
        pytest.param([[(0, 9)]] * FAN_IN, [[1, 2, 3, 4]], id="enough runs"),
        pytest.param([[(n, n + 1)] for n in range(9)], [], id="runs in the order of time"),
        pytest.param([IN_ORDER, *[[(0, 9)]] * 3], [], id="runs of other sizes"),
        pytest.param(
            [IN_ORDER, *[[(0, 9)]] * 4], [[9, 10, 11, 12]], id="runs of one size, and a larger one"
        ),
        pytest.param([IN_ORDER] * FAN_IN, [[*range(1, 33)]], id="large runs"),
        pytest.param([[(0, 9, FILE, 6)]], [[1]], id="deleted rows"),
        pytest.param([[(0, 9, FILE, 5)]], [], id="a few deleted rows"),
        pytest.param([[*IN_ORDER, (3, 4, FILE, 50)]], [[9]], id="deleted rows of a sorted run"),
        pytest.param([[(0, 9, 3 * FILE)]], [[1]], id="a file that is too large"),
    ],
)
def test_only_files_that_need_it_are_sorted(
    runs: list[list[tuple[Any, ...]]], expected: list[list[int]]
) -> None:
    """CMP-8."""
    assert groups(files(*runs)) == expected


def test_text_that_may_be_cut_is_left_alone_and_partitions_are_separate() -> None:
    """CMP-8: the bounds of such text are equal in every file, in whatever order they are."""
    two = files([(0, 9)] * 8)
    for text, expected in (("a" * 31, 1), ("a" * 32, 0)):
        bounds = {"lower.1": [text] * 8, "upper.1": [text + "z"] * 8}
        texts = two.drop_columns(["lower.1", "upper.1"])
        for name, values in bounds.items():
            texts = texts.append_column(name, pa.array(values))
        assert len(plan(texts).groups) == expected
    small = files(*[[(0, 9, 10)]] * 4).append_column("partition.9", pa.array([1, 2, 1, 3]))
    schema = tablefmt.open("memory://schema-of-a-plan").context.view.head.metadata.schema
    found = plan_ordering(small, {"partition.9": "p"}, schema.fields, 7, FILE)
    assert [group.files.tolist() for group in found.groups] == [[1, 3]]
    assert found.files["reason"].to_pylist() == ["small", "small", "in order", "in order"]


SHAPES: dict[str, Any] = {
    "random": lambda rng, n: rng.integers(0, 10**9, n),
    "few values": lambda rng, n: rng.integers(0, 3, n),
    "skewed": lambda rng, n: np.floor(rng.lognormal(0, 3, n)).astype(np.int64),
    "one value": lambda rng, n: np.zeros(n, np.int64),
    "mostly one": lambda rng, n: np.where(rng.random(n) < 0.97, 7, rng.integers(0, 10**6, n)),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("second", ["", "random", "few values", "mostly one"])
def test_a_second_clustering_has_nothing_to_do(first: str, second: str) -> None:
    """CMP-8: whatever the values are, the result counts as sorted."""
    rng = np.random.default_rng(3)
    by = ["x", "y"] if second else ["x"]
    table = tablefmt.create(
        f"memory://order-{first}-{second}".replace(" ", "-"),
        "x BIGINT, y BIGINT, z BIGINT",
        cluster_by=by,
        properties={"targetFileSize": 6000},
    )
    for _ in range(3):
        made = {name: SHAPES[shape](rng, 3000) for name, shape in
                (("x", first), ("y", second or "random"), ("z", "random"))}  # fmt: skip
        table.append(pa.table(made))
    before = table.to_arrow().sort_by([(name, "ascending") for name in "xyz"])
    assert table.cluster().metrics["numAddedFiles"] >= 3
    assert table.to_arrow().sort_by([(name, "ascending") for name in "xyz"]) == before
    assert str(table.cluster(dry_run=True)).endswith("files: in order")
    assert table.cluster().no_op


@pytest.mark.slow
def test_maintenance_costs_what_is_new_and_a_search_opens_few_files() -> None:
    """CMP-8: 60 appends, maintain after each."""
    rng = np.random.default_rng(1)
    table = inline_table("x BIGINT, y BIGINT", clusterBy="x", targetFileSize="30000")
    opened = 0
    for _ in range(60):
        table.append(pa.table({"x": rng.integers(0, 10**6, 500), "y": rng.integers(0, 10**9, 500)}))
        assert table.maintain().ok
        for value in (10, 500_000, 990_000):
            opened = max(opened, table.scan(where=f"x = {value}").files().num_rows)
    done = [h for h in table.history().to_pylist() if h["operation"] == "CLUSTER"]
    rewritten = sum(int(dict(h["operationMetrics"])["numOutputRows"]) for h in done)
    assert table.count() == 30_000
    assert opened <= 13
    assert rewritten <= 3 * 30_000
    assert {dict(h["operationParameters"])["clusterBy"] for h in done} == {"x"}
    before = table.version
    table.maintain()
    assert table.version == before


def test_automatic_compaction_sorts_new_files() -> None:
    """CMP-7, CMP-8."""
    table = inline_table("x BIGINT, y BIGINT", clusterBy="x", autoCompact="true")
    for n in range(60):
        table.append([{"x": (n * 37) % 60, "y": n}])
    fresh = open_at(table.context.store, table.context.environment)
    assert "CLUSTER" in fresh.history()["operation"].to_pylist()
    largest = fresh.scan().files().sort_by([("rows", "descending")])["path"][0].as_py()
    store = table.context.store
    values = pq.ParquetFile(pa.BufferReader(store.get(largest))).read().column(0).to_pylist()
    assert len(values) >= 50
    assert values == sorted(values)
    assert sorted(fresh.to_arrow()["x"].to_pylist()) == list(range(60))


def test_the_order_follows_its_columns(tmp_path: Path) -> None:
    """CMP-8: rename, drop, replace, restore, another order and none."""
    table = tablefmt.create(
        str(tmp_path / "t"), "a BIGINT, `b, c` STRING, p INT, s STRUCT<f: INT>",
        partition_by="p", cluster_by=["b, c", "a"],
    )  # fmt: skip
    assert table.properties == {"clusterBy": "`b, c`, a"}
    assert table.cluster_by == ["b, c", "a"]
    table.alter.rename_column("`b, c`", "b")
    assert table.cluster_by == ["b", "a"]
    for name in ("a", "A"):
        with pytest.raises(SchemaMismatchError, match="clustered by"):
            table.alter.drop_column(name)
    rows = pa.table({"b": pa.array([1], pa.int64()), "p": pa.array([1], pa.int32())})
    with pytest.raises(SchemaMismatchError, match="cannot cluster by 'a'"):
        table.overwrite(rows, overwrite_schema=True)
    for bad in (["lost"], ["p"], ["s"], ["a", "A"], [f"c{n}" for n in range(33)]):
        with pytest.raises(SchemaMismatchError, match="cannot cluster"):
            table.alter.set_clustering(bad)
        with pytest.raises(SchemaMismatchError, match="cannot cluster"):
            table.alter.set_properties({"clusterBy": bad})
    version = table.version
    assert table.alter.set_clustering(["b", "a"]).no_op
    assert table.version == version
    assert table.alter.set_clustering("b").operation == "CLUSTER BY"
    table.alter.drop_column("a")
    table.overwrite(rows, overwrite_schema=True)
    # The column has another type, so another id, and stays in the order.
    assert table.cluster_by == ["b"]
    table.restore(version=0)
    assert table.cluster_by == []
    table.alter.set_clustering(["a"])
    assert table.alter.set_clustering(None).version == table.version
    assert table.properties == {}
    with pytest.raises(SchemaMismatchError, match="no clustering order"):
        table.cluster()


def test_columns_of_the_order_have_bounds_and_another_order_is_noticed() -> None:
    """CMP-8, PRN-11."""
    table = inline_table(
        "x BIGINT, y BIGINT, z BIGINT", clusterBy="y", statsColumns="z", targetFileSize="6000"
    )
    rng = np.random.default_rng(5)
    for _ in range(2):
        table.append(pa.table({name: rng.integers(0, 10**9, 3000) for name in "xyz"}))
    columns = table.context.view.snapshot().files.column_names
    assert [name for name in columns if name.startswith("lower.")] == ["lower.2", "lower.3"]
    table.cluster()
    assert table.cluster().no_op
    table.alter.set_clustering("z")
    assert table.cluster().metrics["numOutputRows"] == 6000
    assert table.cluster().no_op
    bounds = table.context.view.snapshot().files.sort_by("lower.3")
    pairs = zip(bounds["upper.3"].to_pylist()[:-1], bounds["lower.3"].to_pylist()[1:], strict=True)
    assert all(upper <= lower for upper, lower in pairs)


@pytest.mark.parametrize("seed", [5, 12, 59, 61, 62, 63])
def test_what_a_clustering_wrote_is_in_order(seed: int) -> None:
    """CMP-8: two files overlap where a curve is cut, and so do files of few values."""
    random = np.random.default_rng(seed)
    count = int(random.integers(200, 600))
    kinds = [
        lambda n: random.integers(0, 1 << 40, count),
        lambda n: random.integers(0, 4, count),
        lambda n: (random.random(count) ** 6 * 1e6).astype(np.int64),
        lambda n: n * count + np.arange(count),
    ]
    chosen = [kinds[at] for at in random.integers(0, len(kinds), int(random.integers(1, 4)))]
    names = [f"c{at}" for at in range(len(chosen))]

    def rows(number: int) -> pa.Table:
        return pa.table({name: kind(number) for name, kind in zip(names, chosen, strict=True)})

    size = int(count * 12 * 8 * len(names) / random.uniform(1.3, 6))
    where = f"memory://in-order-{seed}"
    table = tablefmt.create(
        where, rows(0).schema, cluster_by=names, properties={"targetFileSize": str(size)}
    )
    for number in range(12):
        table.append(rows(number))
    assert not table.cluster().no_op
    assert table.maintain().steps[0].outcome == "not due"


def test_maintenance_does_not_rewrite_what_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMP-8: the estimate may call every file unsorted."""
    monkeypatch.setattr(clustering_plan, "OPENED", -1.0)
    table = tablefmt.create(
        "memory://rewritten-once", "x BIGINT, y BIGINT", cluster_by=["x", "y"],
        properties={"targetFileSize": "2000"},
    )  # fmt: skip
    random = np.random.default_rng(1)
    for _ in range(12):
        table.append(pa.table({name: random.integers(0, 1 << 40, 200) for name in ("x", "y")}))
    step = table.maintain().steps[0]
    assert (step.outcome, table.refresh().version) == ("done", 13)
    assert table.maintain(dry_run=True).steps[0].outcome == "is due"
