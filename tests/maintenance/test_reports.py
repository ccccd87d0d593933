"""Results of methods are accepted by libraries that support Arrow's stream protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

import tablefmt


def test_pandas_polars_and_duckdb_take_reports(tmp_path: Path) -> None:
    """The frames have the rows of `to_arrow`."""
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


def _taken(report: Any) -> list[list[dict[str, Any]]]:
    """The rows that Arrow, polars and DuckDB make of a report."""
    with duckdb.connect() as connection:
        found = connection.sql("SET TimeZone = 'UTC'; FROM report").to_arrow_table()
    return [pa.table(report).to_pylist(), pl.DataFrame(report).to_dicts(), found.to_pylist()]


def test_commits_and_runs_of_pipes_are_rows(tmp_path: Path) -> None:
    """The rows have every field, with the concurrent commits that a commit was rebased over."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    held = table.transaction()
    held.append({"id": [1]})
    other = table.append({"id": [2]})
    over = held.commit()
    nothing = table.delete("id = 77")
    run = tablefmt.pipe(table).into(str(tmp_path / "u"))

    def row(commit: tablefmt.Commit) -> dict[str, Any]:
        return {
            "version": commit.version,
            "timestamp": commit.timestamp,
            "transaction": commit.transaction,
            "operation": commit.operation,
            "metrics": sorted(commit.metrics.items()),
            "rebased_over": [
                {"version": v.version, "operation": v.operation, "rule": v.rule, "cell": v.cell}
                for v in commit.rebased_over
            ],
            "already_applied": False,
            "no_op": commit.no_op,
            "exports": sorted(commit.exports.items()),
        }

    assert [v.version for v in over.rebased_over] == [other.version] == [1]
    assert (nothing.no_op, over.version) == (True, 2)
    for commit in (other, over, nothing):
        assert [list(map(_plain, found)) for found in _taken(commit)] == [[row(commit)]] * 3
    ran = {"first_version": 0, "last_version": 2, "rows": 2, "commit": row(run.commit)}
    for found in _taken(run):
        assert [{**one, "commit": _plain(one["commit"])} for one in found] == [ran]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A map is a dict, pairs, or structs of key and value, by the library."""

    def pairs(value: Any) -> list[tuple[str, int]]:
        found = value.items() if isinstance(value, dict) else value
        return sorted(tuple(p.values()) if isinstance(p, dict) else tuple(p) for p in found)

    return {**row, "metrics": pairs(row["metrics"]), "exports": pairs(row["exports"])}
