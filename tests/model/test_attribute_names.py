"""Names of other libraries that a table or the package lacks: the error says what to call."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import pytest

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
import tablefmt.spark
from tablefmt.model.attribute_names import OF_PACKAGE, OF_TABLES
from tablefmt.operations.alter import Alter
from tablefmt.operations.merge_builder import MergeBuilder
from tablefmt.session.table_scan import Scan
from tablefmt.spark.entry.spark_table import SparkTable

OWNERS = (
    tablefmt, tablefmt.Table, tablefmt.spark, tablefmt.duckdb, tablefmt.polars,
    Scan, Alter, MergeBuilder, SparkTable,
)  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Any:
    return tablefmt.create("memory://attributes", "id INT")


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_table_says_what_to_call(table: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{name!r}; use {OF_TABLES[name]}")):
        getattr(table, name)
    assert not hasattr(tablefmt.Table, name)


@pytest.mark.parametrize("name", OF_PACKAGE)
def test_the_package_says_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{name!r}; use {OF_PACKAGE[name]}")):
        getattr(tablefmt, name)


@pytest.mark.parametrize("advice", [OF_TABLES, OF_PACKAGE], ids=["tables", "package"])
def test_advice_names_what_is_there(advice: Mapping[str, str]) -> None:
    called = {name for text in advice.values() for name in re.findall(r"(\w+)\(", text)}
    assert called
    assert [name for name in called if not any(hasattr(each, name) for each in OWNERS)] == []


def test_other_names(table: Any) -> None:
    """A near miss, a name unlike all, and names that Python asks for."""
    with pytest.raises(AttributeError, match="no attribute 'to_arow'; did you mean 'to_arrow'"):
        table.to_arow()
    with pytest.raises(AttributeError, match="no attribute 'wirte'; did you mean 'write'"):
        tablefmt.wirte  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        table.xyzzy()
    assert not hasattr(table, "__dataframe__")
    assert copy.copy(table).uri == table.uri
    handle: Any = SparkTable.__new__(SparkTable)
    with pytest.raises(AttributeError, match=r"'properties'; use table\.properties"):
        handle.properties  # noqa: B018
    with pytest.raises(AttributeError, match=r"'toDF'; use to_df\(\)"):
        handle.toDF()
