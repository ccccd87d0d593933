"""Delta's names in a Spark Connect session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt import errors
from tablefmt.compat.delta import DeltaTable


@pytest.mark.soak
def test_a_program_of_delta_runs_over_connect(connect: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    builder = DeltaTable.create(connect).location(place)
    table = builder.addColumn("id", "BIGINT").addColumn("s", "STRING").execute()
    tablefmt.open(place).append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}, {"id": 3, "s": "c"}])
    table.delete("id = 1")
    table.update("id = 2", {"s": "upper(s)"})
    source = connect.createDataFrame([(3, "z"), (4, "d")], "id BIGINT, s STRING")
    merge = table.alias("t").merge(source.alias("new"), "t.id = new.id")
    done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first()
    assert (done.num_updated_rows, done.num_inserted_rows) == (1, 1)
    assert sorted(map(tuple, table.toDF().collect())) == [(2, "B"), (3, "z"), (4, "d")]
    assert table.history(1).first().operation == "MERGE"
    assert table.detail().first().format == "tablefmt"
    connect.sql(f"CREATE TABLE compat_t (id BIGINT) USING tablefmt LOCATION '{place}'")
    try:
        named = DeltaTable.forName(connect, "spark_catalog.default.`compat_t`")
        assert named.detail().first().location == place
        assert tablefmt.spark.open(connect, "COMPAT_T").to_df().count() == 3
    finally:
        connect.sql("DROP TABLE compat_t")
    with pytest.raises(errors.TableNotFoundError, match="no tablefmt table"):
        DeltaTable.forName(connect, "db.t")
