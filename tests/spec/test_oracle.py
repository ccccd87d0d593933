"""The oracle agrees on tables in every store, and disagrees as soon as anything differs."""

from __future__ import annotations

import shutil
import uuid
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tests.oracle import assert_agrees, every_table_agrees
from tests.s3server import S3Server

SCHEMA = pa.schema({"p": pa.string(), "d": pa.date32(), "m": pa.decimal128(9, 2), "x": pa.int64()})
ROWS = pa.Table.from_pylist(
    [
        {"p": None, "d": None, "m": None, "x": 1},
        {"p": "", "d": date(1, 1, 1), "m": Decimal("-0.01"), "x": None},
        {"p": "/", "d": date(9999, 12, 31), "m": Decimal("1234567.89"), "x": -(2**63)},
        {"p": "日本=%2F", "d": date(1970, 1, 1), "m": Decimal("0.00"), "x": 2**63 - 1},
    ],
    SCHEMA,
)


def a_history(uri: str, options: dict[str, Any] | None = None) -> tablefmt.Table:
    """Every kind of commit on a partitioned table."""
    more: dict[str, Any] = {"properties": {"user.owner": "é"}, "storage_options": options}
    keys = ["p", "d", "m"]
    table = tablefmt.create(uri, SCHEMA, partition_by=keys, **more)
    table.append(ROWS, user_metadata={"note": ["é", None]}, application=("app", 7))
    table.append(ROWS)
    table.overwrite(ROWS.slice(1, 2), dynamic_partitions=True)
    table.truncate("p = '/'")
    table.append(ROWS.slice(3))
    return table


def test_it_agrees_on_local_disk(tmp_path: Path) -> None:
    """RPL-1, RPL-2, RPL-3, RPL-5, ADD-2, VAL-1, VAL-2, TIM-1, TIM-2 as the package writes them."""
    assert_agrees(a_history(str(tmp_path / "t")))


def test_it_agrees_in_memory() -> None:
    assert_agrees(a_history(f"memory://oracle/{uuid.uuid4().hex}"))


@pytest.mark.slow
def test_it_agrees_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    assert_agrees(a_history(s3_uri, s3_server.options), s3_server.options)


def test_it_agrees_on_a_handle_that_stays_behind(tmp_path: Path) -> None:
    """RPL-4: an older version is compared with the same older version."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, SCHEMA)
    tablefmt.open(uri).append(ROWS)
    assert table.version == 0
    assert_agrees(table)


class Changed:
    """A table with one changed attribute."""

    def __init__(self, table: tablefmt.Table, **otherwise: Any) -> None:
        self._table = table
        self._otherwise = otherwise

    def __getattr__(self, name: str) -> Any:
        return self._otherwise[name] if name in self._otherwise else getattr(self._table, name)


class ScanOf:
    def __init__(self, files: pa.Table) -> None:
        self._files = files

    def files(self) -> pa.Table:
        return self._files


def test_it_disagrees_when_anything_differs(tmp_path: Path) -> None:
    """An oracle that cannot fail proves nothing."""
    table = a_history(str(tmp_path / "t"))
    files, history = table.scan().files(), table.history()

    def other(shown: pa.Table, name: str, values: Any) -> pa.Table:
        return shown.set_column(shown.column_names.index(name), name, [values])

    more = other(files, "rows", pa.array([9] * files.num_rows))
    swapped = other(files, "partition", files["partition"].combine_chunks()[::-1])
    blind = other(history, "isBlindAppend", pa.array([True] * history.num_rows))
    changes: list[dict[str, Any]] = [
        {"version": table.version - 1},
        {"id": "0" * 32},
        {"timestamp": table.timestamp + timedelta(microseconds=1)},
        {"partition_by": []},
        {"properties": {}},
        {"schema": table.schema.set(3, pa.field("x", pa.int32()))},
        {"scan": lambda: ScanOf(files.slice(1))},
        {"scan": lambda: ScanOf(files.take(list(range(files.num_rows))[::-1]))},
        {"scan": lambda: ScanOf(more)},
        {"scan": lambda: ScanOf(swapped)},
        {"history": lambda: history.slice(1)},
        {"history": lambda: blind},
    ]
    for change in changes:
        with pytest.raises(AssertionError):
            assert_agrees(Changed(table, **change))


@pytest.mark.broken_tables
def test_it_disagrees_on_a_table_with_damage_that_the_handle_did_not_see(tmp_path: Path) -> None:
    """A data file is damaged, or an entry."""
    for damaged in ("data", "_log"):
        root = tmp_path / damaged
        table = a_history(str(root))
        assert_agrees(table)
        for path in (root / damaged).rglob("*.*"):
            path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(AssertionError):
            assert_agrees(table)


def test_it_is_asked_after_every_test(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage that a test leaves fails that test. Removed tables are skipped."""
    guard = every_table_agrees.__wrapped__(request, monkeypatch, None)  # type: ignore[attr-defined]
    next(guard)
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    table.append(ROWS)
    shutil.rmtree(a_history(str(tmp_path / "gone")).uri)
    path = next((tmp_path / "t" / "data").rglob("*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(AssertionError, match="ADD-5"):
        next(guard)
    path.write_bytes(whole)
