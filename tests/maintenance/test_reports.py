"""What methods return is taken by libraries that speak Arrow's stream protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

import tablefmt


def test_pandas_polars_and_duckdb_take_reports(tmp_path: Path) -> None:
    """With the rows of `to_arrow`."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    for number in range(3):
        table.append({"id": [number]})
    table.overwrite({"id": [9]})
    copy = tablefmt.create(str(tmp_path / "u"), "id BIGINT")
    tablefmt.pipe(table).into(copy)
    reports: list[Any] = [
        table.vacuum(retention=0, breaks_running_transactions=True),
        table.expire_log(retention=0, breaks_running_transactions=True),
        table.verify(),
        table.checkpoint(),
        table.maintain(dry_run=True),
        copy.lag(),
    ]
    for report in reports:
        rows = report.to_arrow()
        assert pa.table(report).equals(rows), report
        assert pl.DataFrame(report).rows() == pl.DataFrame(rows).rows()
        assert len(pd.DataFrame.from_arrow(report)) == rows.num_rows
        with duckdb.connect() as connection:
            assert (
                connection.sql("FROM report").fetchall() == connection.sql("FROM rows").fetchall()
            )
    assert sum(pa.table(report).num_rows for report in reports) > 3
