"""Tables with deleted rows: both backends leave them out, in every kind of read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError, TablefmtError, UnsupportedFeatureError
from tablefmt.model.log_entry import OperationClass
from tablefmt.model.schema import Field, Primitive, Schema
from tablefmt.spark.backends.backend_protocol import FILE, ROW
from tablefmt.spark.backends.native import native_relation
from tablefmt.spark.backends.row_level_operations import with_positions
from tests.rows import StagedTable
from tests.spark.looking import rows_of
from tests.tables import sorted_rows


@pytest.fixture
def staged(uri: str) -> StagedTable:
    """Files of four, four, one and three rows; two of them have lost some."""
    table = StagedTable(uri)
    for start in (0, 4):
        table.commit(OperationClass.INSERT, [[(start + i, i) for i in range(4)]])
    table.commit(
        OperationClass.UPDATE, [[(5, 9)]], marks={1: ([0, 3], []), 2: ([], [1])}, updated=[True]
    )
    table.commit(OperationClass.INSERT, [[(20 + i, i) for i in range(3)]])
    return table


@pytest.fixture
def named(spark: Any) -> Iterator[Callable[[str], Any]]:
    """Gives the catalog's table over a path."""
    tablefmt.spark.register(spark)

    def table(uri: str) -> Any:
        spark.sql(f"CREATE TABLE IF NOT EXISTS gone USING tablefmt OPTIONS (path '{uri}')")
        return spark.table("gone")

    yield table
    spark.sql("DROP TABLE IF EXISTS gone")


@pytest.fixture
def arrow(use_backend: Callable[..., None]) -> None:
    use_backend("arrow")


def ways(spark: Any, named: Callable[[str], Any], uri: str) -> list[Any]:
    return [tablefmt.spark.read(spark, uri), spark.read.format("tablefmt").load(uri), named(uri)]


def scans(frame: Any) -> list[Any]:
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    return [leaves.apply(at) for at in range(leaves.size())]


def columns_read(scan: Any) -> list[str]:
    return list(scan.requiredSchema().fieldNames())


def test_every_way_in_gives_the_rows_that_are_left_at_every_version(
    spark: Any, staged: StagedTable, named: Callable[[str], Any]
) -> None:
    """DEL-4, TIM-4: rows, counts and sums."""
    uri = staged.table.uri
    named(uri)
    for version in (2, 3):
        for frame in (
            tablefmt.spark.read(spark, uri, version=version),
            spark.read.format("tablefmt").option("versionAsOf", version).load(uri),
            spark.sql(f"SELECT * FROM gone VERSION AS OF {version}"),
        ):
            assert sorted_rows(frame) == sorted(staged.versions[version])
    rows = sorted(staged.versions[-1])
    total = [(len(rows), sum(v for _, v in rows))]
    for frame in ways(spark, named, uri):
        assert sorted_rows(frame) == rows
    assert frame.count() == len(rows)
    assert sorted_rows(frame.selectExpr("count(*)", "sum(v)")) == total
    assert sorted_rows(frame.where("v = 3 or id = 0")) == [r for r in rows if r[1] == 3]
    # The row with 0 is deleted, so it must not be divided by.
    assert sorted_rows(frame.where("10 / id > 2.1")) == [r for r in rows if r[0] <= 4]


def test_rows_go_to_joins_sub_queries_views_and_caches_without_those_deleted(
    spark: Any, staged: StagedTable, named: Callable[[str], Any]
) -> None:
    rows = sorted(staged.versions[-1])
    frame = named(staged.table.uri)
    frame.createOrReplaceTempView("seen")
    joined = frame.alias("a").join(frame.alias("b"), "id").selectExpr("id", "a.v + b.v")
    assert sorted_rows(joined) == [(i, 2 * v) for i, v in rows]
    inner = spark.sql("SELECT * FROM seen WHERE v IN (SELECT max(v) FROM seen)")
    assert sorted_rows(inner) == [(5, 9)]
    scalar = spark.sql("SELECT id FROM seen WHERE v = (SELECT min(v) FROM seen) AND id < 20")
    assert sorted_rows(scalar) == [(4,)]
    outer = spark.range(30).selectExpr("id AS i").where("i NOT IN (SELECT id FROM seen)")
    assert {row.i for row in outer.collect()} == set(range(30)) - {i for i, _ in rows}
    assert spark.sql("WITH c AS (SELECT * FROM seen) SELECT * FROM c, c d").count() == (
        len(rows) ** 2
    )
    cached = frame.where("id > 3").cache()
    assert sorted_rows(cached) == [r for r in rows if r[0] > 3]
    cached.unpersist()
    numbered = frame.selectExpr("id", "monotonically_increasing_id() AS n").collect()
    assert len({row.n for row in numbered}) == len(rows)


def test_positions_are_read_where_a_file_with_deleted_rows_is_and_nowhere_else(
    spark: Any, staged: StagedTable, named: Callable[[str], Any]
) -> None:
    """Columns are pruned and conditions pushed down with them and without."""
    for frame in ways(spark, named, staged.table.uri):
        (every,) = scans(frame.where("v > 0").select("v"))
        assert columns_read(every) == ["v", native_relation.POSITION]
        assert "GreaterThan(v,0)" in every.metadata().apply("PushedFilters")
        (only,) = scans(frame.where("id >= 20").select("id"))
        assert columns_read(only) == ["id"]
        (only,) = scans(frame.where("id < 2").select("id"))
        assert columns_read(only) == ["id", native_relation.POSITION]
        assert sorted_rows(frame.where("id < 2")) == [(1, 1)]


def test_the_position_that_spark_tells_is_that_in_the_file(
    spark: Any, staged: StagedTable, named: Callable[[str], Any]
) -> None:
    places = [(p, row[0]) for file in staged.live for p, row in staged.rows(file)]
    for frame in ways(spark, named, staged.table.uri)[:2]:
        assert sorted_rows(frame.selectExpr("_metadata.row_index", "id")) == sorted(places)
        chosen = frame.where("_metadata.row_index = 2").select("id")
        assert sorted_rows(chosen) == sorted((i,) for p, i in places if p == 2)


@pytest.fixture
def any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are made with names that are not given (SCH-11): others' writers may have."""
    monkeypatch.setattr("tablefmt.operations.create.check_new_names", lambda schema: schema)


def test_a_column_of_the_user_is_not_taken_for_a_position(
    spark: Any, uri: str, any_name: None
) -> None:
    table = tablefmt.create(uri, "id BIGINT, _metadata STRUCT<row_index: BIGINT>")
    given = [{"row_index": 3 - i} for i in range(4)]
    kind = pa.struct([("row_index", pa.int64())])
    table.append(pa.table({"id": range(4), "_metadata": pa.array(given, kind)}))
    table.delete("id = 1")
    frame = tablefmt.spark.read(spark, uri)
    assert sorted_rows(frame.selectExpr("id", "_metadata.row_index")) == [(0, 3), (2, 1), (3, 0)]
    there = frame.select("id", frame.metadataColumn("_metadata").row_index)
    assert sorted_rows(there) == [(0, 0), (2, 2), (3, 3)]
    tablefmt.create(uri + "-other", pa.schema([(native_relation.POSITION, pa.int64())]))
    with pytest.raises(UnsupportedFeatureError, match="reserves the column name"):
        tablefmt.spark.read(spark, uri + "-other")


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("engine", "form"),
    [
        ("vectors", "in tasks"),
        ("vectors", "sent once"),
        ("vectors", "in pages"),
        ("rows", "in pages"),
        ("interpreted", "in tasks"),
        ("interpreted", "sent once"),
    ],
)
def test_any_positions_of_larger_files_are_left_out(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch, engine: str, form: str
) -> None:
    """DEL-2, DEL-4: positions at the ends of words, pages and files, of no page, and of all."""
    if form != "in tasks":
        monkeypatch.setattr(native_relation, "DELETED_TASK_BYTES", 0)
    if form == "in pages":
        monkeypatch.setattr(native_relation, "DELETED_BITS_BYTES", 0)
    # Spark writes several pages for a column, and skips pages by their bounds.
    count = 15 * 4096 + 77
    for start in (0, count, 2 * count):
        rows = spark.range(start, start + count, 1, 1).selectExpr("id", f"id % {count} AS v")
        tablefmt.spark.write(rows, uri)
    table = tablefmt.open(uri)
    gone = {0: [0, 63, 64, 4095, 8192, count - 1], 2: range(4096, 8192)}
    for file, positions in gone.items():
        text = ", ".join(str(file * count + p) for p in positions)
        table.delete(f"id IN ({text})")
    left = set(range(3 * count)) - {f * count + p for f, ps in gone.items() for p in ps}
    settings = {
        "vectors": {},
        "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
        "interpreted": {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    }[engine]
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        frame = tablefmt.spark.read(spark, uri)
        found = frame.select("id").toArrow()["id"].to_pylist()
        assert len(found) == len(left)
        assert set(found) == left
        some = frame.where("v BETWEEN 8180 AND 8200 OR v = 61000").select("id").toArrow()
        chosen = [i for i in left if 8180 <= i % count <= 8200 or i % count == 61000]
        assert sorted(some["id"].to_pylist()) == sorted(chosen)
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_partitions_prune_a_table_with_deleted_rows(
    spark: Any, uri: str, named: Callable[[str], Any]
) -> None:
    """PRN-3, DAT-8: conditions prune, and so do values that a join finds while it runs."""
    rows = spark.range(60).selectExpr("id", "id % 6 AS p", "concat('s', id) AS s")
    tablefmt.spark.write(rows.coalesce(1), uri, partition_by=["p"])
    tablefmt.open(uri).delete("id IN (8, 9, 14, 15)")
    left = [i for i in range(60) if i not in (8, 9, 14, 15)]
    days = uri + "-days"
    tablefmt.spark.write(spark.range(6).selectExpr("id AS d", "id % 3 AS k"), days)
    few = tablefmt.spark.read(spark, days).where("k = 2")
    for frame in ways(spark, named, uri):
        assert sorted_rows(frame.select("id")) == [(i,) for i in left]
        assert sorted_rows(frame.where("p = 2").select("id", "p")) == [
            (i, 2) for i in left if i % 6 == 2
        ]
    (scan,) = scans(frame.where("p = 2"))
    assert int(scan.selectedPartitions().totalNumberOfFiles()) == 1
    joined = frame.join(few, frame.p == few.d).select("id", "s")
    assert sorted_rows(joined) == [(i, f"s{i}") for i in left if i % 3 == 2]
    scanned = [
        int(leaf.metrics().apply("numFiles").value())
        for leaf in _executed(joined)
        if leaf.relation().partitionSchema().length() > 0
    ]
    assert sorted(scanned) == [2]
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        adaptive = frame.join(few, frame.p == few.d).groupBy("k").agg({"id": "sum"})
        assert sorted_rows(adaptive) == [(2, sum(i for i in left if i % 3 == 2))]
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")


def _executed(frame: Any) -> list[Any]:
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    return [leaf for leaf in found if leaf.getClass().getSimpleName() == "FileSourceScanExec"]


def test_columns_that_the_files_call_otherwise_are_read_under_their_names(
    spark: Any, uri: str, named: Callable[[str], Any]
) -> None:
    """SCH-3: two have changed places, and one of them partitions the table."""
    whole = Primitive("long")
    schema = Schema(
        (Field(1, "a", "b", whole), Field(2, "b", "a", whole), Field(3, "p.q", "old", whole)), 3
    )
    table = tablefmt.create(uri, schema, partition_by=["p.q"])
    table.append(pa.table({"a": range(9), "b": range(10, 19), "p.q": [i % 3 for i in range(9)]}))
    table.delete("a IN (2, 3) OR b = 17")
    left = [(i, 10 + i, i % 3) for i in range(9) if i not in (2, 3, 7)]
    for frame in ways(spark, named, uri):
        assert sorted_rows(frame) == left
        assert sorted_rows(frame.where("b > 14 AND `p.q` = 2")) == [(5, 15, 2), (8, 18, 2)]
    snapshot = tablefmt.open(uri).context.view.snapshot(2)
    files = snapshot.with_vectors(snapshot.files)
    frame = with_positions(
        spark, table.context.store, files, snapshot.schema, snapshot.partition_ids
    )
    places = snapshot.files["partition.3"].to_pylist()
    assert sorted_rows(frame) == [(a, b, p, places.index(p), a // 3) for a, b, p in left]


def test_files_older_than_the_schema_lose_their_rows_too(
    spark: Any, uri: str, named: Callable[[str], Any]
) -> None:
    """DAT-12, SCH-7: a column they lack, one of a narrower type, and one of another name."""
    table = tablefmt.create(uri, pa.schema([("id", pa.int32()), ("v", pa.int64())]))
    table.append(pa.table({"id": pa.array(range(6), pa.int32()), "v": range(6)}))
    table.delete("id IN (0, 4)")
    table.alter.add_column("c", "INT", default=7)
    table.alter.widen_column("id", "BIGINT")
    table.alter.rename_column("v", "w")
    table.append(pa.table({"id": [1 << 40], "w": [6], "c": pa.array([8], pa.int32())}))
    table.delete("w = 2")
    left = [(1, 1, 7), (3, 3, 7), (5, 5, 7), (1 << 40, 6, 8)]
    for frame in ways(spark, named, uri):
        assert sorted_rows(frame) == left
        assert sorted_rows(frame.where("c = 7 AND w > 1").select("id")) == [(3,), (5,)]
    table.refresh()
    snapshot = table.context.view.snapshot(table.version)
    files = snapshot.with_vectors(snapshot.files)
    frame = with_positions(
        spark, table.context.store, files, snapshot.schema, snapshot.partition_ids
    )
    assert sorted_rows(frame) == [(*row, int(row[0] > 9), row[1] % 6) for row in left]


def test_a_session_that_does_not_know_how_says_so(spark: Any, staged: StagedTable) -> None:
    """DEL-4: a view that another session made must not return deleted rows."""
    tablefmt.spark.register(spark)
    uri = staged.table.uri
    tablefmt.spark.read(spark, uri).createGlobalTempView("everywhere")
    other = spark.newSession()
    try:
        with pytest.raises(TablefmtError, match="register"):
            other.table("global_temp.everywhere").collect()
        tablefmt.spark.register(other)
        assert sorted_rows(other.table("global_temp.everywhere")) == sorted(staged.versions[-1])
    finally:
        spark.catalog.dropGlobalTempView("everywhere")


def test_changes_give_the_rows_that_a_file_had_till_it_went(
    spark: Any, staged: StagedTable
) -> None:
    """INC-3: rows deleted before are not deleted again."""
    staged.commit(OperationClass.OVERWRITE, [[(50, 0)]], [1])
    staged.commit(OperationClass.OVERWRITE, [], [4])
    changes = tablefmt.spark.open(spark, staged.table.uri).changes(after_version=4)
    found = sorted((row._commit_version, row._change_type, row.id) for row in changes.collect())
    assert found == [
        (5, "delete", 1), (5, "delete", 2), (5, "insert", 50),
        (6, "delete", 20), (6, "delete", 21), (6, "delete", 22),
    ]  # fmt: skip


def test_the_arrow_backend_leaves_the_rows_out(
    spark: Any, staged: StagedTable, arrow: None
) -> None:
    """DEL-4, INC-3: this holds in Spark's workers and in the change feed."""
    uri = staged.table.uri
    assert rows_of(tablefmt.spark.read(spark, uri)) == rows_of(staged.table.to_arrow())
    staged.commit(OperationClass.OVERWRITE, [], [1])
    changes = tablefmt.spark.open(spark, uri).changes(after_version=4).collect()
    assert sorted((row.id, row._change_type) for row in changes) == [(1, "delete"), (2, "delete")]


@pytest.mark.parametrize("backend", ["native", "arrow"])
def test_rows_come_with_their_positions(
    spark: Any, staged: StagedTable, backend: str, use_backend: Callable[..., None]
) -> None:
    """DEL-1: positions count rows as written, with the deleted and skipped ones."""
    use_backend(backend)
    snapshot = staged.table.context.view.snapshot(4)
    files = snapshot.with_vectors(snapshot.files)
    expected = sorted(
        (*row, place, position)
        for place, file in enumerate(staged.live)
        for position, row in staged.rows(file)
    )
    frame = with_positions(spark, staged.store, files, snapshot.schema, snapshot.partition_ids)
    assert frame.columns == ["id", "v", FILE, ROW]
    assert sorted_rows(frame) == expected
    assert sorted_rows(frame.where("v = 2")) == [r for r in expected if r[1] == 2]
    at = {(r[2], r[3]) for r in expected if r[0] > 5}
    assert set(sorted_rows(frame.where("id > 5").select(FILE, ROW))) == at
    ids = with_positions(
        spark,
        staged.store,
        files,
        snapshot.schema,
        snapshot.partition_ids,
        columns=[snapshot.schema.fields[1]],
    )
    assert sorted_rows(ids) == sorted(r[1:] for r in expected)


def test_places_are_told_of_partitioned_files_too(spark: Any, uri: str) -> None:
    rows = spark.range(12).selectExpr("id", "IF(id % 4 = 3, NULL, id % 4) AS p")
    tablefmt.spark.write(rows.coalesce(1), uri, partition_by=["p"])
    table = tablefmt.open(uri)
    table.delete("id IN (0, 7, 9)")
    table.refresh()
    snapshot = table.context.view.snapshot(table.version)
    files = snapshot.with_vectors(snapshot.files)
    frame = with_positions(
        spark, table.context.store, files, snapshot.schema, snapshot.partition_ids
    )
    partitions = snapshot.files["partition.2"].to_pylist()
    found = sorted_rows(frame.select("id", "p", FILE, ROW).where("p IS NULL OR p < 9"))
    assert found == sorted(
        (i, p, place, position)
        for place, p in enumerate(partitions)
        for position, i in enumerate(i for i in range(12) if (None if i % 4 == 3 else i % 4) == p)
        if i not in (0, 7, 9)
    )


def test_a_column_called_as_a_place_is_refused_by_name(
    spark: Any, uri: str, any_name: None
) -> None:
    table = tablefmt.create(uri, pa.schema([(FILE.upper(), pa.int64())]))
    snapshot = table.context.view.snapshot(0)
    with pytest.raises(SchemaMismatchError, match=FILE.upper()):
        with_positions(spark, table.context.store, snapshot.files, snapshot.schema, frozenset())
