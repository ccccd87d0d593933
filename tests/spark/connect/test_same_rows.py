"""A table by its path, a view and its name over Spark Connect: equal rows. Spec: TIM-5, TIM-6.

By name, a SparkTable works; Spark's own reads, writes and SQL of a catalog table are refused there.
`test_statements.py` has the refused SQL statements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError, VersionNotFoundError
from tests.spark.connect.conftest import ZONE
from tests.spark.looking import data_files
from tests.spark.six_versions import CHANGES, DDL, FEED, VERSIONS, found, in_functions, wall, wanted


def test_one_history_reads_alike_in_every_way(connect: Any, uri: str, tmp_path: Path) -> None:
    """Write by functions; read by options, functions, view and stream; keep up."""
    tablefmt.create(uri, DDL)
    for statement in in_functions(connect, uri, uri):
        statement()
    raw = tablefmt.open(uri)
    for version, expected in enumerate(VERSIONS):
        rows = raw.to_arrow(version=version).to_pylist()
        assert wanted([tuple(row.values()) for row in rows]) == expected
    table = tablefmt.spark.open(connect, uri)
    then = wall(uri, 2, ZONE)
    bounds = {"startingTimestamp": then, "endingTimestamp": wall(uri, 3, ZONE)}
    some = wanted([change for change in CHANGES if change[3] in (2, 3)])
    for options, expected in [
        ({"versionAsOf": "3"}, VERSIONS[3]),
        ({"timestampAsOf": then}, VERSIONS[2]),
        (FEED, wanted(CHANGES)),
        ({"readChangeFeed": "true", **bounds}, some),
    ]:
        reader = connect.read.format("tablefmt").options(**options)
        assert found(reader.load(uri)) == expected
    assert found(table.to_df(version=4)) == VERSIONS[4]
    assert found(table.to_df(timestamp=then)) == VERSIONS[2]
    assert found(tablefmt.spark.read(connect, uri, timestamp=then)) == VERSIONS[2]
    assert found(table.changes(starting_timestamp=then, ending_version=3)) == some
    given = ", ".join(f"{key} '{value}'" for key, value in FEED.items())
    view = "CREATE OR REPLACE TEMPORARY VIEW looked USING tablefmt OPTIONS (path '{}', {})"
    connect.sql(view.format(uri, given))
    assert found(connect.sql("SELECT * FROM looked")) == wanted(CHANGES)
    stream = connect.readStream.format("tablefmt").options(**FEED).load(uri)
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "came"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert found(connect.read.parquet(str(tmp_path / "came"))) == wanted(CHANGES)
    raw.alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    table.restore(3)
    table.restore(timestamp=wall(uri, 4, ZONE))
    table.compact()
    table.cluster("id")
    assert [row.operation for row in table.history(4).collect()] == [
        "CLUSTER", "COMPACT MINOR", "RESTORE", "RESTORE",
    ]  # fmt: skip
    before = len(data_files(uri))
    assert table.vacuum(retention="0 seconds", dry_run=False).deleted > 0
    assert len(data_files(uri)) < before
    with pytest.raises(VersionNotFoundError):
        connect.read.format("tablefmt").option("versionAsOf", "3").load(uri).collect()
    assert found(connect.read.format("tablefmt").load(uri)) == VERSIONS[4]


def test_one_history_by_name(connect: Any, uri: str, tmp_path: Path) -> None:
    """Write and read by the name of the catalog. A clone made again copies only what is new."""
    tablefmt.create(uri, DDL)
    connect.sql("CREATE DATABASE shop")
    connect.sql(f"CREATE TABLE shop.orders ({DDL}) USING tablefmt LOCATION '{uri}'")
    try:
        for statement in in_functions(connect, "shop.orders", uri):
            statement()
        table = tablefmt.spark.open(connect, "shop.`orders`")
        then = wall(uri, 2, ZONE)
        for version, expected in enumerate(VERSIONS):
            assert found(table.to_df(version=version)) == wanted(expected)
        assert found(table.to_df(timestamp=then)) == VERSIONS[2]
        assert found(table.changes(starting_version=1)) == wanted(CHANGES)
        some = [change for change in CHANGES if change[3] in (2, 3)]
        assert found(table.changes(starting_timestamp=then, ending_version=3)) == wanted(some)
        copy = str(tmp_path / "copy")
        for version in (3, 5):
            made = table.clone(copy, shallow=False, version=version, replace=version == 5)
            assert found(made.to_df()) == wanted(VERSIONS[version])
        for read in (connect.table("shop.orders"), connect.sql("SELECT * FROM shop.orders")):
            with pytest.raises(UnsupportedFeatureError, match=r"tablefmt\.spark\.open"):
                read.collect()
    finally:
        connect.sql("DROP DATABASE shop CASCADE")
