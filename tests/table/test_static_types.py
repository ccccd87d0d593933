"""A type checker knows the types of results. It checks this file; tests run the same calls."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import duckdb
import polars
import pyarrow as pa
import pytest
from typing_extensions import assert_type

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from tablefmt.operations.save_modes import Mode
from tablefmt.session.commit_result import Commit


def test_results_have_the_types_that_a_checker_knows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    tablefmt.write(pa.table({"id": [1, 2]}), uri)
    table = tablefmt.open(uri)
    assert_type(table, tablefmt.Table)
    for frame in (table.to_polars(), table.scan(where="id > 0").to_polars()):
        assert_type(frame, polars.DataFrame)
        assert isinstance(frame, polars.DataFrame)
    # The checker skips pandas, which has no types of its own.
    assert {type(table.to_pandas()).__name__, type(table.scan().to_pandas()).__name__} == {
        "DataFrame"
    }
    lazy = tablefmt.polars.scan(uri)
    assert_type(lazy, polars.LazyFrame)
    assert isinstance(lazy, polars.LazyFrame)
    relation = tablefmt.duckdb.relation(uri)
    assert_type(relation, duckdb.DuckDBPyRelation)
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    commit = table.append([{"id": 3}])
    assert_type(commit, Commit)
    assert_type(commit.version, int)
    assert_type(table.count(), int)


def test_modes_are_literal_types() -> None:
    assert inspect.signature(tablefmt.write).parameters["mode"].annotation == "Mode"
    assert get_args(Mode) == ("append", "overwrite", "error", "errorifexists", "ignore")


def test_a_checker_refuses_a_mode_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(tablefmt.errors.InvalidArgumentError, match="upsert"):
        tablefmt.write(pa.table({"id": [1]}), str(tmp_path), mode="upsert")  # type: ignore[arg-type]
