"""Iceberg tables with partition transforms: hidden partitions of the new table (IMP-9, HID-1)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tests.export.foreign_readers import delta_rs
from tests.export.iceberg_readers import DuckDBIceberg, PyIceberg
from tests.imports.sources import alike
from tests.imports.test_iceberg_tables import hand_added, made

transforms = pytest.importorskip("pyiceberg.transforms")

UTC = dt.timezone.utc
BY = ["days(ts)", "bucket(3, id)", "region", "truncate(3, s)", "truncate(100, dec)", "hours(at)"]


def rows_of(count: int, start: int = 0) -> pa.Table:
    """Return rows before and after 1970, with NULL in each column."""
    numbers = range(start, start + count)
    first, hour = dt.datetime(1969, 12, 28, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23)
    times = [first + dt.timedelta(hours=11 * n) if n % 7 else None for n in numbers]
    return pa.table(
        {
            "id": pa.array([n if n % 10 else None for n in numbers], pa.int64()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "at": pa.array([hour - dt.timedelta(hours=n % 2) for n in numbers], pa.timestamp("us")),
            "s": pa.array([f"äb{n % 3}x{n}" if n % 9 else None for n in numbers], pa.string()),
            "dec": pa.array([Decimal(n - 9) / 4 for n in numbers], pa.decimal128(9, 2)),
            "region": pa.array([f"r{n % 2}" for n in numbers], pa.string()),
        }
    )


def partitioned(folder: Path) -> Any:
    """Return an Iceberg table with all kinds of transforms, and two appends."""
    ice = made(folder, rows_of(0))
    with ice.update_spec() as spec:
        spec.add_field("ts", transforms.DayTransform())
        spec.add_field("id", transforms.BucketTransform(3), "my bucket")
        spec.add_identity("region")
        spec.add_field("s", transforms.TruncateTransform(3))
        spec.add_field("dec", transforms.TruncateTransform(100))
        spec.add_field("at", transforms.HourTransform())
    ice.append(rows_of(20))
    ice.append(rows_of(10, 40))
    return ice


CONDITIONS = [
    ("ts >= TIMESTAMP '1970-01-03 00:00:00Z'", "ts >= '1970-01-03T00:00:00+00:00'"),
    ("ts < TIMESTAMP '1969-12-31 00:00:00Z'", "ts < '1969-12-31T00:00:00+00:00'"),
    ("ts IS NULL", "ts IS NULL"),
    ("id IN (3, 44)", "id IN (3, 44)"),
    ("s LIKE 'äb1%'", "s LIKE 'äb1%'"),
    ("dec < -1", "dec < -1.00"),
    ("at = TIMESTAMP_NTZ '1969-12-31 22:00:00'", "at = '1969-12-31T22:00:00'"),
    ("region = 'r1' AND id > 41", "region = 'r1' AND id > 41"),
]


def test_transforms_become_hidden_partitions(tmp_path: Path) -> None:
    """The new table has Iceberg's rows, prunes as PyIceberg does, and goes on with new files."""
    ice = partitioned(tmp_path)
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg")
    assert table.partition_by == BY
    assert [field.name for field in table.context.view.head.metadata.schema.hidden] == [
        "ts_day",
        "my bucket",
        "s_trunc_3",
        "dec_trunc_100",
        "at_hour",
    ]
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow())
    every = table.scan().files().num_rows
    for ours, theirs in CONDITIONS:
        expected = ice.scan(row_filter=theirs)
        found = table.scan(where=ours)
        assert alike(found.to_arrow()) == alike(expected.to_arrow()), ours
        # Bounds of files may skip more here.
        assert 0 < found.files().num_rows <= len(list(expected.plan_files())) < every, ours
    # New files of the same rows have the same values, as this package computes them.
    before = values_of(table)
    table.overwrite(table.to_arrow())
    assert values_of(table) == before


def values_of(table: tablefmt.Table) -> list[tuple[Any, ...]]:
    """Return the partition values of a table with the number of their rows."""
    found = table.scan().partitions().to_pylist()
    values = ((*each["partition"].values(), each["rows"]) for each in found)
    return sorted(values, key=str)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_the_table_lives_on_and_is_exported(to: Any, tmp_path: Path) -> None:
    """DELETE, UPDATE, append, compaction, vacuum; copies in other readers. A copy for Iceberg needs
    a folder of its own, beside that of the source.
    """
    partitioned(tmp_path)
    path = tmp_path / ("db/t" if to == "delta" else "u")
    into = None if to == "delta" else path
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg", into=into)
    wanted = table.to_arrow().to_pylist() + rows_of(3, 100).to_pylist()
    table.append(rows_of(3, 100))
    table.delete("ts < TIMESTAMP '1969-12-31 00:00:00Z'")
    table.update({"ts": "TIMESTAMP '2026-01-01 00:00:00Z'", "s": "'new'"}, "id = 44")
    border, moved = dt.datetime(1969, 12, 31, tzinfo=UTC), dt.datetime(2026, 1, 1, tzinfo=UTC)
    wanted = [row for row in wanted if row["ts"] is None or row["ts"] >= border]
    wanted = [row | ({"ts": moved, "s": "new"} if row["id"] == 44 else {}) for row in wanted]
    ours = alike(pa.Table.from_pylist(wanted, table.to_arrow().schema))
    assert alike(table.to_arrow()) == ours
    report = table.export(to)
    before = values_of(table)
    table.compact("major")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert values_of(table) == before
    assert (report.held, table.export(to).held) == (None, None)
    duckdb = DuckDBIceberg(tmp_path, "avro", "iceberg") if to == "iceberg" else None
    try:
        reads = [delta_rs] if duckdb is None else [duckdb.read, PyIceberg().read]
        for version in (table.version, report.version):
            found = [alike(read(str(path), version)) for read in reads]
            assert found == [ours] * len(reads), version
    finally:
        if duckdb is not None:
            duckdb.close()
    assert table.verify(deep=True).ok


def test_what_not_every_file_has_is_left_out_and_said(tmp_path: Path, caplog: Any) -> None:
    """IMP-9: the specs of the files differ, or a column has the name of the field."""
    columns = {"id": pa.int64(), "ts": pa.timestamp("us"), "TS_Year": pa.int32(), "k": pa.int32()}
    rows = pa.table({name: pa.array([None, 5], kind) for name, kind in columns.items()})
    ice = made(tmp_path, rows.slice(0, 0))
    with ice.update_spec() as spec:
        spec.add_field("ts", transforms.DayTransform())
        spec.add_field("id", transforms.BucketTransform(2))
    ice.append(rows)
    with ice.update_spec() as spec:
        spec.remove_field("ts_day")
        spec.add_field("ts", transforms.YearTransform())
        spec.add_identity("k")
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg")
    assert table.partition_by == ["bucket(2, id)"]
    said = [record.getMessage().partition("partitioned by the ")[2] for record in caplog.records]
    assert said == [
        "year of 'ts': not every file is partitioned by it",
        "identity of 'k': not every file is partitioned by it",
    ]
    assert alike(table.to_arrow()) == alike(rows)


@pytest.mark.parametrize(
    ("transform", "value", "held"),
    [
        # Iceberg's older writers rounded times before 1970 up: both days became day 0.
        ("day", 0, {"ts": [-1, 0]}),
        ("day", 0, {"ts": [-1, -1]}),
        ("day", 0, {}),
        ("day", 3, {}),
        ("hour", None, {"ts": [5, None]}),
        ("day", 0, {"ts": [5, None]}),
        ("bucket[4]", 1, {}),
        ("bucket[4]", None, {"id": [1, 2]}),
        ("truncate[10]", 10, {"id": [9, 11]}),
        ("truncate[10]", 10, {"id": [19, 20]}),
    ],
)
def test_values_that_rows_contradict_are_left_out_and_said(
    transform: str, value: Any, held: dict[str, list[Any]], tmp_path: Path, caplog: Any
) -> None:
    """IMP-9: readers would skip rows by them. `held`: columns of a file, times in hours."""
    schema = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us"), "x": pa.int64()})
    ice = made(tmp_path, schema.empty_table())
    column = "ts" if transform in ("day", "hour") else "id"
    with ice.update_spec() as spec:
        spec.add_field(column, transforms.parse_transform(transform))
    made_of = {"x": pa.array([1, 2])}
    for name, several in held.items():
        values = [v if v is None or name == "id" else v * 3_600_000_000 for v in several]
        made_of[name] = pa.array(values, schema.field(name).type)
    # Every file has field ids, as Iceberg demands.
    ids = {field.name: field.field_id for field in ice.schema().fields}
    named = [
        pa.field(n, a.type, metadata={"PARQUET:field_id": str(ids[n])}) for n, a in made_of.items()
    ]
    rows = pa.table(list(made_of.values()), schema=pa.schema(named))
    hand_added(ice, "wrong.parquet", rows, [value])
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg")
    assert table.partition_by == []
    assert "data/wrong.parquet' has rows with other values" in caplog.text
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow())


@pytest.mark.parametrize(
    ("transform", "value", "held"),
    [
        ("day", -1, [-24, -1]),
        ("day", 0, [0, 23]),
        ("hour", None, [None, None]),
        ("year", -1, [-1, -9]),
        ("month", None, None),
    ],
)
def test_values_that_rows_prove_are_taken(
    transform: str, value: Any, held: list[Any] | None, tmp_path: Path, caplog: Any
) -> None:
    """IMP-9, HID-1."""
    schema = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us")})
    ice = made(tmp_path, schema.empty_table())
    with ice.update_spec() as spec:
        spec.add_field("ts", transforms.parse_transform(transform))
    hours = [] if held is None else [None if h is None else h * 3_600_000_000 for h in held]
    rows = {"id": pa.array([1, 2])} | (
        {} if held is None else {"ts": pa.array(hours, pa.timestamp("us"))}
    )
    named = [
        pa.field(n, a.type, metadata={"PARQUET:field_id": str(1 + (n == "ts"))})
        for n, a in rows.items()
    ]
    hand_added(
        ice, "right.parquet", pa.table(list(rows.values()), schema=pa.schema(named)), [value]
    )
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg")
    assert (table.partition_by, caplog.text) == ([f"{transform}s(ts)"], "")
    assert values_of(table) == [
        (dt.date(1970, 1, 1) + dt.timedelta(value) if transform == "day" else value, 2)
    ]
