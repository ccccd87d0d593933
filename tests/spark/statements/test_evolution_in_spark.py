"""Changes of the partitioning in Spark SQL, over files of several partitionings."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tests.operations.evolving_table import COLUMNS, Row, counted, plain
from tests.oracle import assert_agrees

pytestmark = pytest.mark.usefixtures("catalog")


def ids(spark: Any, where: str = "TRUE", of: str = "evolved_t") -> list[int]:
    found = spark.sql(f"SELECT id FROM {of} WHERE {where} ORDER BY id").collect()
    return [each[0] for each in found]


def test_partition_fields_change_by_sql(spark: Any, tmp_path: Path) -> None:
    """EVO-1 to EVO-5 by name and by path."""
    path = tmp_path / "t"
    spark.sql(
        "CREATE TABLE evolved_t (id BIGINT, region STRING, d DATE) USING tablefmt "
        f"PARTITIONED BY (region) LOCATION '{path}'"
    )
    try:
        insert = "INSERT INTO evolved_t VALUES"
        spark.sql(
            f"{insert} (1, 'EU', DATE'2026-01-01'), (2, 'US', DATE'2026-01-02'), (3, NULL, NULL)"
        )
        spark.sql("ALTER TABLE evolved_t ADD PARTITION FIELD d")
        spark.sql(f"{insert} (4, 'EU', DATE'2026-01-01'), (5, '', DATE'2026-01-02')")
        spark.sql(f"ALTER TABLE tablefmt.`{path}` DROP PARTITION FIELD region")
        spark.sql(f"{insert} (6, 'EU', DATE'2026-01-01'), (7, NULL, DATE'2026-01-03')")
        table = tablefmt.open(str(path))
        assert table.partition_by == ["d"]
        assert len({*table.scan().partitions()["partitioned_by"].to_pylist()}) == 3
        assert ids(spark) == [*range(1, 8)]
        assert ids(spark, "region = 'EU'") == [1, 4, 6]
        assert ids(spark, "region IS NULL") == [3, 7]
        assert ids(spark, "region = ''") == [5]
        assert ids(spark, "d = DATE'2026-01-01'") == [1, 4, 6]
        grouped = spark.sql("SELECT region, count(*) FROM evolved_t GROUP BY region").collect()
        assert {tuple(each) for each in grouped} == {("EU", 3), ("US", 1), ("", 1), (None, 2)}
        shown = spark.sql("SHOW CREATE TABLE evolved_t").first()[0]
        assert "PARTITIONED BY (d)" in shown
        with pytest.raises(Exception, match="several"):
            spark.sql("SHOW PARTITIONS evolved_t").collect()
        spark.sql("UPDATE evolved_t SET region = 'FR' WHERE id = 2")
        spark.sql("DELETE FROM evolved_t WHERE d = DATE'2026-01-01' AND region = 'EU' AND id < 5")
        assert ids(spark) == [2, 3, 5, 6, 7]
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        spark.sql("INSERT OVERWRITE evolved_t VALUES (9, 'FR', DATE'2026-01-02')")
        assert ids(spark) == [3, 6, 7, 9]
        spark.sql("INSERT OVERWRITE evolved_t SELECT * FROM evolved_t WHERE id = 7")
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("MERGE INTO evolved_t t USING (SELECT 3L AS id) s ON t.id = s.id "
                  "WHEN MATCHED THEN UPDATE SET region = 'X'")  # fmt: skip
        assert ids(spark, "region = 'X'") == [3]
        spark.sql("ALTER TABLE evolved_t REPLACE PARTITION FIELD d WITH bucket(2, id)")
        spark.sql(f"{insert} (10, 'EU', DATE'2026-01-01')")
        assert ids(spark) == [3, 6, 7, 9, 10]
        assert ids(spark, of="evolved_t VERSION AS OF 3") == [1, 2, 3, 4, 5]
        spark.sql("ALTER TABLE evolved_t ADD PARTITION FIELD truncate(1, region) AS shard")
        fields = spark.table("evolved_t.partitions").schema["partition"].dataType.names
        assert "shard" in fields
        spark.sql(
            "ALTER TABLE evolved_t REPLACE PARTITION FIELD shard WITH truncate(1, region) AS `a b`"
        )
        spark.sql("ALTER TABLE evolved_t DROP PARTITION FIELD `a b`")
        with pytest.raises(Exception, match="keeps its own name"):
            spark.sql("ALTER TABLE evolved_t ADD PARTITION FIELD region AS area")
        with pytest.raises(Exception, match="not partitioned by"):
            spark.sql("ALTER TABLE evolved_t DROP PARTITION FIELD region")
        spark.sql("OPTIMIZE evolved_t FULL")
        assert ids(spark) == [3, 6, 7, 9, 10]
        fresh = tablefmt.open(str(path))
        assert not fresh.context.view.head.metadata.is_evolved
        assert_agrees(fresh)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("DROP TABLE IF EXISTS evolved_t")


def stream(spark: Any, path: Path, into: Path, **options: Any) -> None:
    """Copy what is new in a table to another one."""
    frame = spark.readStream.format("tablefmt").options(**options).load(str(path))
    writer = frame.writeStream.format("tablefmt").option("checkpointLocation", f"{into}-state")
    query = writer.trigger(availableNow=True).start(str(into))
    query.awaitTermination()


@pytest.mark.soak
def test_streams_go_on_over_changed_partitionings(spark: Any, tmp_path: Path) -> None:
    """EVO-2, STR: of the source, and of the sink; new rows, and the change feed."""
    path, copy, feed = (tmp_path / name for name in ("t", "copy", "feed"))
    table = tablefmt.create(str(path), COLUMNS, partition_by=["region"])
    target = tablefmt.create(str(copy), COLUMNS, partition_by=["days(ts)"])
    rows: list[Row] = []
    number = 0
    for mine, its in (
        (["region", "days(ts)"], []),
        ("days(ts)", ["region"]),
        (["bucket(2, id)"], ["region", "bucket(3, id)"]),
        ([], ["truncate(1, region)"]),
    ):
        for region, day in (("EU", 0), ("US", 1), (None, 2)):
            rows += plain(range(number, number + 2), region, day)
            number += 2
        table.append(rows[-6:])
        stream(spark, path, copy, skipChangeCommits="true")
        assert counted(tablefmt.open(str(copy)).to_arrow().to_pylist()) == counted(rows)
        if number > 6:
            table.update({"x": "x + 1"}, f"id IN (1, {number - 1})")
            table.restore(version=table.version - 1)
        stream(spark, path, feed, readChangeFeed="true", startingVersion="0")
        total: Counter[str] = Counter()
        for each in tablefmt.open(str(feed)).to_arrow().to_pylist():
            came = each["_change_type"] in ("insert", "update_postimage")
            (text,) = counted([each])
            total[text] += 1 if came else -1
        assert {text: n for text, n in total.items() if n} == counted(rows)
        table.alter.set_partitioning(mine)
        target.alter.set_partitioning(its)
    assert_agrees(tablefmt.open(str(copy)))


def test_tasks_rewrite_files_of_several_partitionings(spark: Any, tmp_path: Path) -> None:
    """EVO-4, EVO-5: outputs of a compaction keep both; repartition has the current one."""
    path = str(tmp_path / "t")
    table = tablefmt.create(path, COLUMNS, partition_by=["region"])
    rows: list[Row] = []
    for by in (["region", "days(ts)"], ["days(ts)"], ["bucket(2, id)"], []):
        for _ in range(2):
            added = [*plain(range(len(rows), len(rows) + 3)), *plain(range(90, 91), None, 1)]
            table.append(added)
            rows += added
        table.alter.set_partitioning(by)
    table.append(plain(range(95, 97), "US"))
    rows += plain(range(95, 97), "US")
    table.delete("id = 4")
    rows = [each for each in rows if each["id"] != 4]
    before = listed(table)
    on = tablefmt.spark.open(spark, path)
    assert on.compact("major").metrics["numRemovedFiles"]
    fresh = tablefmt.open(path)
    assert counted(fresh.to_arrow().to_pylist()) == counted(rows)
    assert listed(fresh) == before
    assert_agrees(fresh)
    assert on.cluster("id").version == fresh.version + 1
    fresh = tablefmt.open(path)
    assert listed(fresh) == before
    assert counted(fresh.to_arrow().to_pylist()) == counted(rows)
    assert on.repartition().metrics["numRemovedFiles"]
    fresh = tablefmt.open(path)
    assert counted(fresh.to_arrow().to_pylist()) == counted(rows)
    assert not fresh.context.view.head.metadata.is_evolved
    assert fresh.verify(deep=True).ok
    assert on.repartition().no_op
    in_memory = tablefmt.create(f"memory://evolved-{uuid.uuid4().hex}", COLUMNS)
    with pytest.raises(UnsupportedFeatureError, match="memory://"):
        tablefmt.spark.open(spark, in_memory.uri).repartition()


def listed(table: tablefmt.Table) -> dict[tuple[Any, ...], int]:
    """Return the number of live rows of each partition of each partitioning."""
    return {
        (each["partitioned_by"], *each["partition"].values()): each["rows"]
        for each in table.scan().partitions().to_pylist()
    }
