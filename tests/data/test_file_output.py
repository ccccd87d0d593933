"""Data files: types, row groups, statistics, and files of different ages in one table."""

from __future__ import annotations

import decimal
import math
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.parquet_writer import GROUP_BYTES, GROUP_ROWS, group_rows
from tests.places import GOLDEN

D = decimal.Decimal


def files_of(table: tablefmt.Table) -> list[pq.ParquetFile]:
    """Return the data files in the order of the log."""
    paths = table.scan().files()["path"].to_pylist()
    return [pq.ParquetFile(Path(table.uri) / path) for path in paths]


@pytest.mark.parametrize(
    ("precision", "physical"),
    [(1, "INT32"), (9, "INT32"), (10, "INT64"), (18, "INT64"), (19, "FIXED_LEN_BYTE_ARRAY")],
)
def test_decimals_are_integers_as_far_as_they_fit(
    precision: int, physical: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-15: both ends of the type come back, and conditions find them in every row group."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 2)
    end = D(10**precision - 1).scaleb(-1)
    values = [end, -end, D(0), None, D("0.1"), D("-0.1"), end - D("0.1")]
    rows = pa.table({"d": pa.array(values, pa.decimal128(precision, 1)), "x": range(7)})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    (file,) = files_of(table)
    assert file.metadata.schema.column(0).physical_type == physical
    assert file.metadata.schema.column(0).logical_type.type == "DECIMAL"
    assert table.to_arrow().equals(rows)
    for bound in {value for value in values if value is not None}:
        for sign in ("=", "<", ">", "<=", ">=", "<>"):
            kept = [x for x, v in enumerate(values) if v is not None and _holds(v, sign, bound)]
            found = table.scan(where=f"d {sign} {bound}").to_arrow()
            assert found["x"].to_pylist() == kept


def _holds(value: D, sign: str, bound: D) -> bool:
    return {
        "=": value == bound,
        "<": value < bound,
        ">": value > bound,
        "<=": value <= bound,
        ">=": value >= bound,
        "<>": value != bound,
    }[sign]


def test_row_groups_are_bounded_by_rows_and_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-16: the number of rows bounds narrow rows, the bytes bound wide ones.

    There is no page index.
    """
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 400)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_BYTES", 100_000)
    rows = pa.table({"x": range(1000), "s": [None if i % 7 else "é" * i for i in range(1000)]})
    wide = pa.table({"x": range(1000), "s": ["w" * 1000] * 1000})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    table.append(wide)
    narrow_file, wide_file = (file.metadata for file in files_of(table))
    assert [narrow_file.row_group(i).num_rows for i in range(3)] == [400, 400, 200]
    counts = [wide_file.row_group(i).num_rows for i in range(wide_file.num_row_groups)]
    assert (sum(counts), set(counts[:-1])) == (1000, {98})
    for footer in (narrow_file, wide_file):
        columns = [footer.row_group(0).column(i) for i in range(2)]
        assert not any(c.has_column_index or c.has_offset_index for c in columns)
    assert table.to_arrow().equals(pa.concat_tables([rows, wide]))
    positions = table.scan(where="x IN (399, 400, 999)").to_arrow()["x"].to_pylist()
    assert positions == [399, 400, 999] * 2
    table.delete("x IN (399, 400, 999)")
    kept = [x for x in range(1000) if x not in (399, 400, 999)]
    assert table.to_arrow()["x"].to_pylist() == kept * 2
    assert table.verify(deep=True).ok


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        (1, 0, GROUP_ROWS),
        (10**7, 10**7, GROUP_ROWS),
        (GROUP_ROWS, GROUP_BYTES, GROUP_ROWS),
        (1000, 1000 * GROUP_BYTES, 1),
        (10, 1000 * GROUP_BYTES, 1),
        (1000, 2 * GROUP_BYTES, 500),
    ],
)
def test_rows_of_a_row_group(rows: int, width: int, expected: int) -> None:
    assert group_rows(rows, width) == expected


def test_nan_in_one_row_group_leaves_none_with_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-9: readers that order NaN above all numbers would drop the row groups without it, too."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 10)
    with_nan = [math.nan if i == 25 else float(i) for i in range(40)]
    rows = pa.table({"f": with_nan, "g": [float(i) for i in range(40)], "x": range(40)})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    (file,) = files_of(table)
    told = [[file.metadata.row_group(g).column(c).is_stats_set for c in range(3)] for g in range(4)]
    assert told == [[False, True, True]] * 4
    (files,) = table.scan().files().to_pylist()
    assert files["rows"] == 40
    # Spark's order: NaN is above all.
    assert table.scan(where="f > 30").to_arrow()["x"].to_pylist() == [25, *range(31, 40)]
    assert table.scan(where="g > 30").to_arrow()["x"].to_pylist() == [*range(31, 40)]


def test_files_of_every_age_are_read_and_changed_side_by_side(tmp_path: Path) -> None:
    """DAT-15, DAT-16: a table of old files goes on under a writer of new ones."""
    shutil.copytree(GOLDEN / "file-shapes" / "table", tmp_path / "t")
    table = tablefmt.open(tmp_path / "t")
    before = table.to_arrow()
    assert before.num_rows == 11
    table.append(before)
    physical = [f.metadata.schema.column(0).physical_type for f in files_of(table)]
    assert sorted(set(physical)) == ["FIXED_LEN_BYTE_ARRAY", "INT32"]
    assert _sorted(table.to_arrow()) == _sorted(pa.concat_tables([before, before]))
    for where in ("a = 0.01", "b > 0", "c < 0 OR c IS NULL", "a = 9999999.00"):
        found = table.scan(where=where).to_arrow()
        model = [row for row in _sorted(table.to_arrow()) if _passes(row, where)]
        assert _sorted(found) == model
    table.update({"b": "b + 1"}, "a = 0.01")
    changed = [
        {**row, "b": row["b"] + 1} if row["a"] == D("0.01") else row for row in _sorted(before)
    ]
    assert _sorted(table.to_arrow()) == sorted([*changed, *changed], key=repr)
    table.delete("a = 0.01")
    assert [row["a"] for row in _sorted(table.to_arrow())].count(D("0.01")) == 0
    assert table.verify(deep=True).ok


def _passes(row: dict[str, Any], where: str) -> bool:
    a, b, c = row["a"], row["b"], row["c"]
    return {
        "a = 0.01": a == D("0.01"),
        "b > 0": b is not None and b > 0,
        "c < 0 OR c IS NULL": c is None or c < 0,
        "a = 9999999.00": a == 9999999,
    }[where]


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    plain = [
        {k: "NaN" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in rows.to_pylist()
    ]
    return sorted(plain, key=repr)


def test_rows_in_memory_are_written_as_several_files_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-6: files are written in parallel, for any chunks of the rows."""
    monkeypatch.setattr("tablefmt.data.data_writer.FLUSH_BYTES", 40_000)
    whole = pa.table({"x": range(50_000)})
    uneven = pa.concat_tables([whole.slice(0, 3), whole.slice(3, 9_997), whole.slice(10_000)])
    for name, rows in (("whole", whole), ("uneven", uneven)):
        table = tablefmt.create(tmp_path / name, rows.schema)
        table.append(rows)
        values = [file.read()["x"].to_pylist() for file in files_of(table)]
        assert len(values) >= 10
        assert max(map(len, values)) <= 5_000
        assert [x for each in values for x in each] == list(range(50_000))
        table.overwrite(rows)
        assert table.to_arrow()["x"].to_pylist() == list(range(50_000))


def test_a_stream_is_held_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written data is freed before more is read."""
    monkeypatch.setattr("tablefmt.data.data_writer.FLUSH_BYTES", 8 << 20)
    shape = pa.schema([("x", pa.int64())])
    start = pa.total_allocated_bytes()
    held = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(48):
            held.append(pa.total_allocated_bytes() - start)
            yield pa.record_batch([pa.array([number] * (1 << 17))], schema=shape)

    table = tablefmt.create(tmp_path / "t", shape)
    table.overwrite(pa.RecordBatchReader.from_batches(shape, batches()))
    assert table.scan().files().num_rows == 6
    assert max(held) <= 10 << 20


def test_jobs_side_by_side_come_back_in_order_and_no_more_at_once_than_asked() -> None:
    lock, running, most = threading.Lock(), 0, 0
    turn = threading.Event()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                turn.set()
        assert turn.wait(10)
        with lock:
            running -= 1
        return number * number

    pulled: list[int] = []

    def jobs() -> Iterator[int]:
        for number in range(20):
            pulled.append(number)
            yield number

    results = side_by_side(work, jobs(), 3)
    assert next(results) == 0
    assert len(pulled) <= 4
    assert list(results) == [n * n for n in range(1, 20)]
    assert most == 3


def test_a_failed_job_ends_the_rest() -> None:
    """Jobs that started finish before the exception leaves. Others never start."""
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("broken")
        return number

    with pytest.raises(ValueError, match="broken"):
        list(side_by_side(work, iter(range(20)), 2))
    assert begun == [0, 1, 2]
    assert list(side_by_side(work, iter([]), 2)) == []
    assert list(side_by_side(work, iter([7]), 2)) == [7]
