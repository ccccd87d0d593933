"""TIM-5 over Spark Connect: the client sends the session's zone, or the text needs one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tests.spark.connect.conftest import ZONE


def test_times_are_in_the_sessions_zone(connect: Any, uri: str, tmp_path: Path) -> None:
    table = tablefmt.create(uri, "id BIGINT")
    for at in range(3):
        table.append([{"id": at}])
    times = table.history()["timestamp"].to_pylist()[::-1]
    walls = [each.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None).isoformat(" ") for each in times]

    def ids(frame: Any) -> list[int]:
        return sorted(row.id for row in frame.select("id").collect())

    reader = connect.read.format("tablefmt").option("timestampAsOf", walls[2])
    assert ids(reader.load(uri)) == [0, 1]
    feed = connect.read.format("tablefmt").option("readChangeFeed", True)
    feed = feed.option("startingTimestamp", walls[2])
    assert ids(feed.load(uri, endingTimestamp=walls[2])) == [1]
    assert ids(tablefmt.spark.read(connect, uri, timestamp=walls[1])) == [0]
    assert ids(tablefmt.spark.open(connect, uri).to_df(timestamp=walls[1])) == [0]
    stream = connect.readStream.format("tablefmt").option("startingTimestamp", walls[3]).load(uri)
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert ids(connect.read.parquet(str(tmp_path / "rows"))) == [2]
    view = "CREATE OR REPLACE TEMPORARY VIEW then USING tablefmt OPTIONS (path '{}', {} '{}')"
    connect.sql(view.format(uri, "timestampAsOf", f"{walls[2]} {ZONE}"))
    assert ids(connect.table("then")) == [0, 1]
    with pytest.raises(UnsupportedFeatureError, match="the session's zone is not available"):
        connect.sql(view.format(uri, "timestampAsOf", walls[2]))
