"""Copies of tables that are partitioned by transforms (XPT-7, XPT-23, HID-1)."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyiceberg.table import StaticTable

import tablefmt
from tablefmt.export.export_check import copy_problems
from tablefmt.operations.create import create
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Exists, PutReply, Store
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table
from tests.export.foreign_readers import DuckDBDelta, delta_rs
from tests.export.iceberg_readers import DuckDBIceberg, Polars, PyIceberg

UTC = dt.timezone.utc
BY = ["days(ts)", "bucket(4, id)", "truncate(2, s)", "region", "months(ts)"]
SPEC = [
    ("ts_day", 3, "day"),
    ("id_bucket", 1, "bucket[4]"),
    ("s_trunc", 2, "truncate[2]"),
    ("region", 4, "identity"),
    ("ts_month", 3, "month"),
]


def test_copies_state_what_their_format_can_say(tmp_path: Path) -> None:
    columns = "id BIGINT, s STRING, ts TIMESTAMP, region INT"
    table = tablefmt.create(str(tmp_path / "t"), columns, partition_by=BY)
    early = [dt.datetime(1969, 12, 30 + n % 2, 5, tzinfo=UTC) for n in range(6)]
    rows = [{"id": n, "s": f"ab{n}", "ts": ts, "region": 1} for n, ts in enumerate(early)]
    table.append([*rows, {"id": None, "s": None, "ts": None, "region": None}])
    table.export("iceberg")
    table.delete("id = 3")
    table.alter.rename_column("s", "text")
    table.append([{"id": 9, "text": "x", "ts": dt.datetime(2026, 1, 1, tzinfo=UTC), "region": 2}])
    table.export("iceberg")
    table.export("delta")

    written = (tmp_path / "t" / "metadata").glob("v*.metadata.json")
    newest = max(written, key=lambda path: int(path.name[1:].partition(".")[0]))
    copy = StaticTable.from_metadata(str(newest))
    found = [(f.name, f.source_id, str(f.transform)) for f in copy.spec().fields]
    assert found == SPEC
    ours = table.to_arrow().sort_by("id").to_pylist()
    assert copy.scan().to_arrow().sort_by("id").to_pylist() == ours
    for where, files, count in (
        ("ts >= '2026-01-01T00:00:00+00:00'", 1, 1),
        ("text = 'x'", 1, 1),
        ("ts < '1969-12-31T00:00:00+00:00'", 2, 3),
    ):
        chosen = copy.scan(row_filter=where)
        assert len(list(chosen.plan_files())) == files, where
        assert chosen.to_arrow().num_rows == count, where

    log = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))
    actions = [orjson.loads(line) for path in log for line in path.read_bytes().splitlines()]
    stated = [each["metaData"]["partitionColumns"] for each in actions if "metaData" in each]
    assert stated[-1] == ["region"]
    values = [each["add"]["partitionValues"] for each in actions if "add" in each]
    assert all(set(each) == {"region"} for each in values)


class _Wrong(ForwardingStore):
    """A store that says once of each object of a copy that its name is taken."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.told: set[str] = set()

    def put_if_absent(self, key: str, body: Any) -> PutReply:
        """Create an object, at the second time."""
        if re.match(r"metadata/(data|deletes|snap)-|deletion_vector", key) and key not in self.told:
            self.told.add(key)
            return Exists()
        return super().put_if_absent(key, body)


def test_an_object_whose_name_is_not_taken_is_written(tmp_path: Path) -> None:
    """XPT-20: the answer 412 for a name that is free leaves no copy without its objects."""
    store = _Wrong(open_store(str(tmp_path / "t")))
    table = Table(create(store, "id BIGINT", properties={"deleteMode": "merge-on-read"}))
    table.append([{"id": 1}, {"id": 2}])
    table.append([{"id": 3}])
    table.delete("id = 2")
    table.export("delta")
    table.export("iceberg")
    assert len(store.told) >= 4
    assert copy_problems(table.context.view) == []
    newest = PyIceberg().read(str(tmp_path / "t"), table.version)
    assert sorted(newest["id"].to_pylist()) == [1, 3]


def _written(uri: str) -> list[list[dict[str, object]]]:
    """Write and export a table with all that a column can have. Return the rows of each version."""
    columns = (
        "id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 2), s VARCHAR(9), "
        "ts TIMESTAMP, region STRING, twice INT GENERATED ALWAYS AS (n * 2), n INT"
    )
    by = ["truncate(1, s)", "region", "days(ts)"]
    table = tablefmt.create(uri, columns, partition_by=by)
    table.alter.set_properties({"export": "delta,iceberg"})
    at = dt.datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    for region in ("", "a=b/c", None):
        some = [{"s": f"{x}y", "ts": at, "region": region, "n": n} for n, x in enumerate("abc")]
        table.append(some)
        at += dt.timedelta(minutes=1)
    table.alter.set_tag("2026 Q1", version=table.version)
    table.update({"n": "n + 10"}, "s = 'by'")
    table.delete("region IS NULL AND n = 2")
    table.alter.rename_column("ts", "at")
    table.alter.add_column("added", "DOUBLE")
    table.append([{"s": None, "at": None, "region": "z", "n": 7, "added": 0.5}])
    table.compact("major")
    return [
        table.scan(version=version).to_arrow().sort_by("id").to_pylist()
        for version in range(table.version + 1)
    ]


@pytest.mark.slow
def test_every_reader_reads_every_kind_of_column_at_every_version(tmp_path: Path) -> None:
    """XPT-7, XPT-23: identity, generated and hidden columns, tags, renamed and added columns."""
    path = str(tmp_path / "t")
    expected = _written(path)
    homes = [tmp_path / "delta", tmp_path / "iceberg"]
    for home in homes:
        home.mkdir()
    delta = DuckDBDelta(homes[0], "delta")
    iceberg = DuckDBIceberg(homes[1], "avro", "iceberg")
    try:
        readers = {
            "delta in DuckDB": delta.read,
            "delta in delta-rs": delta_rs,
            "iceberg in DuckDB": iceberg.read,
            "iceberg in PyIceberg": PyIceberg().read,
            "iceberg in polars": Polars().read,
        }
        for name, read in readers.items():
            for version in range(2, len(expected)):
                found = sorted(read(path, version).to_pylist(), key=lambda row: row["id"])
                assert found == expected[version], (name, version)
    finally:
        delta.close()
        iceberg.close()
