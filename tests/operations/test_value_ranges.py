"""Values beyond the range of their column, by each way into a table without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.polars
from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError

BEYOND: list[tuple[str, pa.DataType, Any, str]] = [
    ("TINYINT", pa.int64(), 300, "BIGINT"),
    ("FLOAT", pa.float64(), 1e300, "DOUBLE"),
    ("FLOAT", pa.float64(), -1e300, "DOUBLE"),
    ("INT", pa.float64(), 1e300, "DOUBLE"),
    ("BIGINT", pa.float64(), 2.0**63, "DOUBLE"),
    ("DECIMAL(5, 2)", pa.float64(), 1e30, "DOUBLE"),
    ("TIMESTAMP_NTZ", pa.date32(), 2**31 - 1, "DATE"),
    ("TIMESTAMP", pa.date32(), -(2**31) + 1, "DATE"),
]


def new(columns: str) -> Any:
    return tablefmt.create(f"memory://ranges-{uuid.uuid4().hex}", columns)


@pytest.mark.parametrize(("narrow", "kind", "value", "wide"), BEYOND)
def test_a_value_beyond_its_column_is_refused_by_every_way(
    narrow: str, kind: pa.DataType, value: Any, wide: str
) -> None:
    """SCH-5, SQL-3: the error names the column, and nothing is committed."""
    given = pa.array([value], pa.int32()).view(kind) if kind == pa.date32() else pa.array([value])
    rows = pa.table({"id": pa.array([1], pa.int64()), "v": given.cast(kind)})
    table = new(f"id BIGINT, v {narrow}, w {wide}")
    table.append({"id": [1]})
    table.append(rows.set_column(0, "id", pa.array([2], pa.int64())).rename_columns(["id", "w"]))
    source = new(f"id BIGINT, v {wide}")
    source.append(rows)
    ways: list[Callable[[], Any]] = [
        lambda: table.append(rows),
        lambda: table.overwrite(rows),
        lambda: table.update({"v": "w"}, "id = 2"),
        lambda: table.merge(rows, "t.id = s.id").when_matched_update({"v": "s.v"}).execute(),
        lambda: (
            table.merge(rows, "t.id = -s.id")
            .when_not_matched_insert({"id": "s.id", "v": "coalesce(s.v, s.v)"})
            .execute()
        ),
        lambda: tablefmt.pipe(source).into(table),
        lambda: tablefmt.pipe(source).into(table, keys="id"),
    ]
    for way in ways:
        with pytest.raises(SchemaMismatchError, match="column 'v'") as caught:
            way()
        assert caught.value.columns == ["v"]
    assert table.refresh().version == 2


def test_an_infinite_number_fits_and_a_default_beyond_a_float_does_not() -> None:
    """SQL-3, SCH-7."""
    table = new("id BIGINT, v FLOAT")
    endless = float("inf")
    table.append({"id": [1]})
    rows = pa.table({"id": [1], "v": [endless]})
    table.merge(rows, "t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(SchemaMismatchError, match="out of range"):
        table.alter.add_column("w", "FLOAT", default=1e300)
    table.alter.add_column("w", "FLOAT", default=-endless)
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": endless, "w": -endless}]


DAYS = [2**31 - 1, 2**31 - 2, -(2**31), 1 - 2**31, 0, 2932897, None]
MICROSECONDS = [2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63, 0, 10**17, None]
PLAIN = pa.schema({"id": pa.int64(), "d": pa.int32(), "t": pa.int64(), "n": pa.int64()})


def numbers(rows: pa.Table) -> list[tuple[int | None, ...]]:
    """Return rows with days and microseconds, which Python's calendar may not have, in order."""
    return sorted((tuple(row.values()) for row in rows.cast(PLAIN).to_pylist()), key=repr)


@pytest.mark.parametrize("partition_by", [[], ["d"], ["t"], ["n"]])
def test_dates_beyond_pythons_calendar_are_values_like_others(
    partition_by: list[str], tmp_path: Path
) -> None:
    """SQL-1, DAT-8: conditions, UPDATE, MERGE, DELETE, a copy for Iceberg, and polars."""
    moments = pa.array(MICROSECONDS, pa.int64()).view(pa.timestamp("us", "UTC"))
    days = pa.array(DAYS, pa.int32()).view(pa.date32())
    rows = pa.table(
        {"id": range(len(DAYS)), "d": days, "t": moments, "n": moments.cast(pa.timestamp("us"))}
    )
    table = tablefmt.create(str(tmp_path / "t"), rows.schema, partition_by=partition_by)
    table.append(rows)
    right = list(zip(range(len(DAYS)), DAYS, MICROSECONDS, MICROSECONDS, strict=True))
    for where, chosen in (
        ("d = DATE '+5881580-07-11'", [0]),
        ("d < DATE '+5881580-07-11' AND length('a') = 1", [1, 2, 3, 4, 5]),
        ("t <= TIMESTAMP '-290308-12-21 19:59:05.224193'", [2, 3]),
        ("n >= TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807' AND length('a') = 1", [0]),
        ("year(d) = 5881580", [0, 1]),
    ):
        assert numbers(table.to_arrow(where=where)) == [right[at] for at in chosen], where
    assert numbers(tablefmt.polars.scan(table).collect().to_arrow()) == sorted(right, key=repr)
    table.update({"id": "id + 10"}, "d > DATE '1970-01-01'")
    table.merge(rows, "t.d = s.d AND t.t = s.t").when_matched_update({"n": "t.n"}).execute()
    table.delete("n = TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807'")
    after = [(at + 10 if (day or 0) > 0 else at, day, *rest) for at, day, *rest in right[1:]]
    assert numbers(table.to_arrow()) == sorted(after, key=repr)
    assert table.export("iceberg").version == table.version
    scan = table.scan()
    with pytest.raises(UnsupportedFeatureError, match="date_as_object=False"):
        scan.to_pandas()
    assert len(scan.to_pandas(date_as_object=False)) == len(after)


def test_a_value_that_python_cannot_hold_is_refused_by_name() -> None:
    """A scalar of Arrow in a filter or as an expression: no OverflowError of Python."""
    table = new("id BIGINT, d DATE")
    last = pa.array([2**31 - 1], pa.int32()).view(pa.date32())[0]
    with pytest.raises(InvalidPredicateError, match=r"date32\[day\] is beyond"):
        table.to_arrow(where=[("d", "=", last)])
    with pytest.raises(InvalidPredicateError, match=r"'d'.* expected SQL text, got Date32Scalar"):
        table.update({"d": last})
