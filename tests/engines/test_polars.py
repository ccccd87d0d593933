"""polars' own reader over live files gives the rows that we give."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden import maker
from polars import col

import tablefmt
import tablefmt.polars
from tablefmt import errors
from tests.data.test_known_values import partitioned_by_what_came_later, without_columns
from tests.engines.places import (
    BEYOND_POLARS,
    BROKEN,
    EXPECTED,
    GOOD,
    ODD,
    changed_table,
    golden,
    shown,
)
from tests.engines.test_claimed_pages import put_unchecked
from tests.s3server import S3Server
from tests.system.page_headers import headers, struct_bytes
from tests.tables import rows


def rows_of(frame: polars.DataFrame) -> list[str]:
    return shown(frame.to_dicts())


def listed(model: list[dict[str, Any]]) -> list[str]:
    """A model's rows as polars shows them: a map is a dict."""
    return shown([{**row, "m": dict(row["m"])} for row in model])


@pytest.mark.share(4)
@pytest.mark.broken_tables
@pytest.mark.parametrize("name", GOOD)
def test_every_golden_table_has_its_rows(name: str, tmp_path: Path) -> None:
    """DAT-4, DAT-8, DAT-12, DEL-4: the types are those of the schema.

    A count without columns works too.
    """
    uri = golden(name, tmp_path)
    lazy = tablefmt.polars.scan(uri)
    if name in BEYOND_POLARS:
        with pytest.raises(polars.exceptions.ComputeError, match="Not yet supported"):
            lazy.collect()
        return
    frame = lazy.collect()
    ours = polars.from_arrow(tablefmt.open(uri).to_arrow())
    assert frame.schema == lazy.collect_schema() == ours.schema
    assert sorted(map(repr, frame.rows())) == sorted(map(repr, ours.rows()))
    assert frame.height == len(EXPECTED[name]["rows"])
    assert lazy.select(polars.len()).collect().item() == frame.height
    flat = [c for c, kind in frame.schema.items() if not kind.is_nested()]
    plain = maker.plain_rows(frame.select(flat).to_arrow().to_pylist())
    expected = [{c: row[c] for c in flat} for row in EXPECTED[name]["rows"]]
    assert sorted(map(repr, plain)) == sorted(map(repr, expected))


@pytest.mark.soak
@pytest.mark.broken_tables
@pytest.mark.parametrize("name", BROKEN)
def test_no_broken_table_is_read(name: str, tmp_path: Path) -> None:
    """The class of the error is the one in the specification."""
    with pytest.raises(errors.TablefmtError) as caught:
        tablefmt.polars.scan(golden(name, tmp_path)).collect()
    assert type(caught.value).__name__ == EXPECTED[name]["error"]


CONDITIONS: list[tuple[polars.Expr, Callable[[dict[str, Any]], Any]]] = [
    (col("id") > 50, lambda r: r["id"] > 50),
    (col("id").is_in([1, 3, 1001]), lambda r: r["id"] in (1, 3, 1001)),
    (col("f") > 20, lambda r: r["f"] != r["f"] or r["f"] > 20),
    (col("f") == 0, lambda r: r["f"] == 0),
    (col("f") == math.nan, lambda r: r["f"] != r["f"]),
    (col("f").is_nan() | (col("id") < 5), lambda r: r["f"] != r["f"] or r["id"] < 5),
    (~col("f").is_nan() & col("gone").is_null(), lambda r: r["f"] == r["f"] and r["gone"] is None),
    (col("gone").eq_missing(None), lambda r: r["gone"] is None),
    (col(f"{ODD}2").str.starts_with("t'1"), lambda r: r[f"{ODD}2"].startswith("t'1")),
    (col("b") < b"\x05\x00\xff", lambda r: r["b"] < bytes([5, 0, 255])),
    (col("day") >= datetime(1970, 3, 1), lambda r: r["day"] >= datetime(1970, 3, 1)),
    (col("n").is_between(4, 6), lambda r: 4 <= r["n"] <= 6),
    (col("n") == Decimal("6.00"), lambda r: r["n"] == 6),
    ((col("id") % 2 == 0) & (col("id") > 90), lambda r: r["id"] % 2 == 0 and r["id"] > 90),
    (col("s").struct.field("a") > 5, lambda r: r["s"] and r["s"]["a"] > 5),
    (polars.lit(False), lambda r: False),
]


@pytest.mark.share(6)
@pytest.mark.parametrize("at", range(len(CONDITIONS)))
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_conditions_over_files_of_several_schemas(at: int, where: str, tmp_path: Path) -> None:
    """SCH-3, SCH-7, SCH-9, DEL-4, PRN-2: polars' reader and ours agree, in both engines."""
    uri = str(tmp_path / ODD) if where == "disk" else f"memory://engines/polars/{at}"
    table, model = changed_table(uri)
    condition, keeps = CONDITIONS[at]
    lazy = tablefmt.polars.scan(table.uri)
    expected = [row for row in model if keeps(row)]
    for engine in ("streaming", "in-memory"):
        assert rows_of(lazy.filter(condition).collect(engine=engine)) == listed(expected)
        few = lazy.filter(condition).select("gone", "id").collect(engine=engine)
        assert sorted(few["id"]) == sorted(row["id"] for row in expected)
        assert few["gone"].null_count() == sum(row["gone"] is None for row in expected)
        first = lazy.filter(condition).head(3).collect(engine=engine)
        assert first.height == min(3, len(expected))
        assert set(first["id"]) <= {row["id"] for row in expected}


def test_columns_limits_and_plans_over_it(tmp_path: Path) -> None:
    """Frames without a condition: a constant column alone, no column, a sort, a self-join."""
    table, model = changed_table(str(tmp_path / "t"))
    lazy = tablefmt.polars.scan(table.uri)
    assert rows_of(lazy.collect()) == listed(model)
    ids = [row["id"] for row in model]
    assert lazy.select("gone").collect()["gone"].to_list().count(7) == 90
    assert lazy.select(polars.len()).collect().item() == len(model)
    assert lazy.head(0).collect().rows() == []
    for n in (1, 89, 95, 1000):
        assert lazy.select("id").head(n).collect()["id"].to_list() == ids[:n]
        few = [row["id"] for row in model[:n] if row["id"] % 2]
        assert lazy.head(n).filter(col("id") % 2 == 1).collect()["id"].to_list() == few
    top = lazy.filter(col("id") < 50).sort("id", descending=True).head(3).select("id")
    assert top.collect(engine="streaming")["id"].to_list() == [49, 48, 47]
    joined = lazy.select("id").join(lazy.select("id", "n"), on="id").select(col("n").sum())
    assert joined.collect().item() == sum(row["n"] for row in model)


@pytest.mark.broken_tables
def test_what_the_log_rules_out_is_not_opened(tmp_path: Path) -> None:
    """PRN-4: a file that cannot hold a matching row may be missing."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, p STRING, f DOUBLE")
    for start in (0, 100, 200):
        table.append(
            pa.table({"id": range(start, start + 10), "p": ["x"] * 10, "f": [start / 1.0] * 10})
        )
    paths = table.scan().files()["path"].to_pylist()
    (tmp_path / "t" / paths[2]).unlink()
    lazy = tablefmt.polars.scan(table.uri)
    for condition, n in (
        (col("id") < 105, 15),
        (col("id").is_between(100, 103), 4),
        (col("id").is_in([3, 103]) & (col("p").str.to_uppercase() == "X"), 2),
        ((col("id") == 1) | ~(col("id") >= 100), 10),
        (~((col("id") > 50) | col("p").is_null()), 10),
        (col("f") <= 100, 20),
    ):
        assert lazy.filter(condition).collect().height == n
    assert lazy.select("id").head(15).collect().height == 15
    for condition in (col("f") >= 150.0, col("id") + 1 < 5, col("p") == "x"):
        with pytest.raises(errors.CorruptDataError):
            lazy.filter(condition).collect()
    with pytest.raises(errors.CorruptDataError):
        lazy.collect()


@pytest.mark.parametrize("make", [without_columns, partitioned_by_what_came_later])
def test_partition_values_come_from_the_log_where_files_lack_them(
    make: Any, tmp_path: Path
) -> None:
    """DAT-8: partition values of every type, NULL too, which is no initial value."""
    table, expected = make(str(tmp_path / "t"))
    lazy = tablefmt.polars.scan(table.uri)
    assert rows_of(lazy.collect()) == shown(expected)
    few = lazy.filter(col("f") > 1).select("x").collect()["x"].to_list()
    assert sorted(few) == sorted(row["x"] for row in expected if row["f"] and row["f"] > 1)


def test_a_frame_stays_at_its_version(tmp_path: Path) -> None:
    """It stays at its version by number and by time, after any change of the table."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    first = table.append(pa.table({"id": [1, 2, 3]}))
    before = tablefmt.polars.scan(table.uri)
    table.delete("id = 2")
    points: list[dict[str, Any]] = [{"version": 1}, {"timestamp": first.timestamp}]
    for lazy in (before, *(tablefmt.polars.scan(table.uri, **point) for point in points)):
        assert lazy.collect()["id"].to_list() == [1, 2, 3]
    assert tablefmt.polars.scan(table.uri).collect()["id"].to_list() == [1, 3]
    with pytest.raises(errors.TableNotFoundError):
        tablefmt.polars.scan(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("collected", [False, True])
def test_a_version_that_was_given_up_is_told_as_that(collected: bool, tmp_path: Path) -> None:
    """ENT-13: the error is the same if polars has opened the files before.

    Another missing file is damage.
    """
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    for number in (1, 2):
        table.overwrite(pa.table({"id": [number]}))
    old, new = (tablefmt.polars.scan(table.uri, version=version) for version in (1, 2))
    if collected:
        assert [lazy.collect().rows() for lazy in (old, new)] == [[(1,)], [(2,)]]
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    with pytest.raises(errors.VersionNotFoundError, match=r"version 1 is .* from 2 to 3"):
        old.collect()
    assert new.collect().rows() == [(2,)]
    (path,) = table.scan().files()["path"].to_pylist()
    (tmp_path / "t" / path).rename(tmp_path / "kept")
    with pytest.raises(errors.CorruptDataError, match="it is missing"):
        new.collect()
    (tmp_path / "kept").rename(tmp_path / "t" / path)


@pytest.mark.slow
def test_tables_on_s3(s3_uri: str, s3_server: S3Server) -> None:
    """It reads ranges. Files that a condition rules out are not requested."""
    options = s3_server.options
    table = tablefmt.create(s3_uri, "id BIGINT, s STRING", storage_options=options)
    for start in (0, 1000):
        texts = [f"{i * 7919:x}" for i in range(1000)]
        table.append(pa.table({"id": range(start, start + 1000), "s": texts}))
    table.delete("id = 7")
    lazy = tablefmt.polars.scan(s3_uri, storage_options=options)
    assert lazy.select(col("id").sum()).collect().item() == sum(range(2000)) - 7
    assert lazy.filter(col("id") == 1007).select("s").collect().item() == texts[7]
    assert lazy.filter(col("id") == 7).collect().height == 0
    assert s3_server.secret not in lazy.explain()


def test_a_table_that_is_open_is_taken_at_its_version(tmp_path: Path) -> None:
    """Another version can be requested."""
    table = tablefmt.create(str(tmp_path), {"id": [1]})
    later = tablefmt.open(str(tmp_path))
    later.append({"id": [2]})
    assert tablefmt.polars.scan(table).collect()["id"].to_list() == [1]
    assert sorted(tablefmt.polars.scan(later).collect()["id"].to_list()) == [1, 2]
    assert tablefmt.polars.scan(later, version=1).collect()["id"].to_list() == [1]
    with pytest.raises(errors.InvalidRangeError, match="storage_options"):
        tablefmt.polars.scan(table, storage_options={"key": "x"})


@pytest.mark.broken_tables
def test_a_page_at_which_polars_panics_is_damage(tmp_path: Path) -> None:
    """DAT-5: a panic is no exception in Python, and would pass `except Exception`."""
    path = tmp_path / "t"
    tablefmt.create(path, rows(1).schema).append(rows(*range(200)))
    (file,) = path.glob("data/**/*.parquet")
    pq.write_table(
        pq.read_table(file),
        file,
        use_dictionary=False,
        column_encoding={"p": "DELTA_BYTE_ARRAY"},
        write_page_checksum=True,
    )
    body = file.read_bytes()
    begin, end, fields = headers(body)[-1]
    (encoding,) = (inner for inner in fields[-1][2] if inner[0] == 2)
    encoding[2] = 1
    made = struct_bytes(fields)
    assert len(made) == end - begin
    put_unchecked(path, file, body[:begin] + made + body[end:])
    with pytest.raises(errors.CorruptDataError, match="polars cannot read a page"):
        tablefmt.polars.scan(path).collect()
