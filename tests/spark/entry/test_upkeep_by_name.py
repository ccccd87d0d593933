"""Upkeep of a table by its path and by its name: equal answers, files and versions. Spec: TIM-5.

The expected values are constants of this module. `test_by_name.py` does the same for reads,
changes, DML and streams, and `connect/test_same_rows.py` for Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.compat.delta import DeltaTable
from tablefmt.errors import VersionNotFoundError
from tablefmt.operations.restore import RESTORED
from tests.spark.looking import data_files
from tests.spark.six_versions import VERSIONS, make, wall, wanted

ZONE = "America/New_York"
LATER = ["RESTORE", "RESTORE", "COMPACT MINOR", "CLUSTER", "VACUUM"]
"""The operations of the versions that every way makes."""
REMOVED = 6
"""The files that no version needs after these."""


class InSql:
    def __init__(self, spark: Any, target: str) -> None:
        self.spark = spark
        self.target = f"tablefmt.`{target}`" if target.startswith("/") else target

    def history(self) -> list[int]:
        rows = self.spark.sql(f"DESCRIBE HISTORY {self.target} LIMIT 2").collect()
        return [row.version for row in rows]

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.target}")

    def cluster(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.target} ZORDER BY (id)")

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE {self.target} TO VERSION AS OF {version}")

    def restore_to(self, time: str) -> None:
        self.spark.sql(f"RESTORE {self.target} TO TIMESTAMP AS OF '{time}'")

    def vacuum(self) -> None:
        asked = self.spark.sql(f"VACUUM {self.target} RETAIN 0 HOURS DRY RUN").count()
        assert self.spark.sql(f"VACUUM {self.target} RETAIN 0 HOURS").count() == asked == REMOVED

    def empty(self) -> None:
        self.spark.sql(f"TRUNCATE TABLE {self.target}")


class InMethods:
    def __init__(self, spark: Any, target: str) -> None:
        self.table = tablefmt.spark.open(spark, target)

    def history(self) -> list[int]:
        return [row.version for row in self.table.history(2).collect()]

    def compact(self) -> None:
        self.table.compact()

    def cluster(self) -> None:
        self.table.cluster("id")

    def restore(self, version: int) -> None:
        self.table.restore(version)

    def restore_to(self, time: str) -> None:
        self.table.restore(timestamp=time)

    def vacuum(self) -> None:
        asked = self.table.vacuum(retention="0 seconds").files.num_rows
        assert self.table.vacuum(retention="0 seconds", dry_run=False).deleted == asked == REMOVED

    def empty(self) -> None:
        self.table.truncate()


class InDeltasNames(InMethods):
    def __init__(self, spark: Any, target: str) -> None:
        by = DeltaTable.forPath if target.startswith("/") else DeltaTable.forName
        self.delta = by(spark, target)

    def history(self) -> list[int]:
        return [row.version for row in self.delta.history(2).collect()]

    def compact(self) -> None:
        self.delta.optimize().executeCompaction()

    def cluster(self) -> None:
        self.delta.optimize().executeZOrderBy("id")

    def restore(self, version: int) -> None:
        self.delta.restoreToVersion(version)

    def restore_to(self, time: str) -> None:
        self.delta.restoreToTimestamp(time)

    def vacuum(self) -> None:
        self.delta.vacuum(0)

    def empty(self) -> None:
        self.delta.delete()


@pytest.mark.share(2)
@pytest.mark.parametrize("door", ["path", "name"])
@pytest.mark.parametrize("way", [InSql, InMethods, InDeltasNames])
def test_every_door_keeps_a_table_up_alike(
    spark: Any, catalog: None, tmp_path: Path, way: Callable[..., Any], door: str
) -> None:
    """The zone of the session counts. In the end, the same versions exist."""
    uri = str(tmp_path / "kept up here")
    make(uri)
    raw = tablefmt.open(uri)
    raw.alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    if door == "name":
        spark.sql(f"CREATE TABLE kept USING tablefmt OPTIONS (path '{uri}')")
    on = way(spark, "default.kept" if door == "name" else uri)
    assert on.history() == [6, 5]
    on.restore(3)
    on.restore_to(wall(uri, 4, ZONE))
    assert raw.refresh().scan().files().num_rows > 1
    on.compact()
    assert raw.refresh().scan().files().num_rows == 1
    on.cluster()
    before = len(data_files(uri))
    on.vacuum()
    assert before - len(data_files(uri)) == REMOVED
    made = raw.refresh().history().to_pylist()[::-1]
    assert [each["operation"] for each in made][7:] == LATER
    with pytest.raises(VersionNotFoundError):
        on.restore(3)
    assert read(raw, None) == VERSIONS[4]
    on.empty()
    assert read(raw.refresh(), None) == []


def read(table: Any, version: int | None) -> list[Any]:
    return wanted([tuple(row.values()) for row in table.to_arrow(version=version).to_pylist()])


FORMS = {
    "name": lambda uri: "`kept_by`",
    "database": lambda uri: "default.`kept_by`",
    "quoted database": lambda uri: "`default`.`kept_by`",
    "catalog": lambda uri: "spark_catalog.default.`kept_by`",
    "path": lambda uri: f"tablefmt.`{uri}`",
    "single quotes": lambda uri: "'" + uri.replace("'", "\\'") + "'",
    "double quotes": lambda uri: f'"{uri}"',
}
"""The ways to name a table in a statement, by the path of its folder."""


def test_statements_take_every_form_of_a_quoted_name_and_path(
    spark: Any, catalog: None, tmp_path: Path
) -> None:
    """VACUUM, OPTIMIZE, DESCRIBE HISTORY, DESCRIBE DETAIL, RESTORE: equal answers."""
    uri = str(tmp_path / "it's kept. here")
    tablefmt.create(uri, "id BIGINT, p STRING", partition_by=["p"])
    table = tablefmt.open(uri)
    for number in range(4):
        table.append([{"id": number, "p": "a"}])
    location = uri.replace("'", "\\'")
    spark.sql(f"CREATE TABLE `kept_by` USING tablefmt LOCATION '{location}'")
    version = table.refresh().version
    for name, form in FORMS.items():
        on = form(uri)
        rows = spark.sql(f"DESCRIBE HISTORY {on} LIMIT 1").collect()
        assert [row.version for row in rows] == [version], name
        detail = spark.sql(f"DESCRIBE DETAIL {on}").first()
        assert (detail["location"], detail["partitionColumns"]) == (uri, ["p"]), name
        assert detail["name"] in (None, "spark_catalog.default.kept_by"), name
        optimized = spark.sql(f"OPTIMIZE {on} WHERE p = 'a'").first()
        assert (optimized["path"], optimized["version"]) == (uri, version + 1), name
        assert spark.sql(f"VACUUM {on} RETAIN 200 HOURS DRY RUN").count() == 0, name
        restored = spark.sql(f"RESTORE TABLE {on} TO VERSION AS OF 3").first()
        assert list(restored.asDict()) == RESTORED.names, name
        assert restored["num_of_files_after_restore"] > 0, name
        assert table.refresh().version == version + 2, name
        assert spark.sql("SELECT count(*) FROM `kept_by`").first()[0] == 3, name
        again = spark.sql(f"RESTORE {on} VERSION AS OF 4").first()
        assert again["table_size_after_restore"] > 0, name
        version = table.refresh().version
    spark.sql("DROP TABLE `kept_by`")
