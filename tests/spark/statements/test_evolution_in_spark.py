"""Changes of the partitioning in Spark SQL, over files of several partitionings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
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
