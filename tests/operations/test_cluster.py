"""Clustering as people run it: the order of rows, what files it leaves, and what is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.data.clustering_order import (
    CURVES,
    axis_bits,
    hilbert,
    places_in,
    ranges_of,
    sort_places,
    sortable,
    z_order,
)
from tablefmt.errors import (
    CommitRejectedError,
    ConcurrentDeleteDeleteException,
    InvalidRangeError,
    SchemaMismatchError,
)
from tablefmt.operations.create import create
from tablefmt.table import Table
from tests.scheduling import examples
from tests.tables import assert_sound, behind, data_files, ids, live_files, memory, new_table, rows

D = decimal.Decimal
NAN = float("nan")
UTC = dt.timezone.utc

# --- orders of values ----------------------------------------------------------------------------

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [False, True]),
    "tinyint": (pa.int8(), [-128, -1, 0, 5, 127]),
    "long": (pa.int64(), [-(2**63), -7, 0, 3, 2**63 - 1]),
    "float": (pa.float32(), [-math.inf, -1.5, 0.0, 0.25, math.inf, NAN]),
    "double": (pa.float64(), [-math.inf, -1e300, -1e-300, 0.0, 1e-300, 1.0, math.inf, NAN]),
    "decimal": (pa.decimal128(9, 2), [D("-99.99"), D("0.00"), D("0.01"), D("9999999.99")]),
    "wide": (pa.decimal128(38, 3), [D("-1e30"), D("0.000"), D("0.001"), D("1e30")]),
    "string": (pa.string(), ["", "A", "a", "a\0", "b", "z", "ä", "€", "\U0001f600"]),
    "binary": (pa.binary(), [b"", b"\0", b"a", b"\x7f", b"\x80", b"\xff"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 1, UTC)],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1)]),
}
"""Values by type, ascending in Spark's order. NULL comes before them all."""


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_are_in_sparks_order(kind: str) -> None:
    """CMP-5: NULL comes first and NaN last, for any order before. Equal values keep their order."""
    arrow, values = VALUES[kind]
    ranked = list(enumerate([None, *values]))
    several = [pair for pair in ranked for _ in range(2)]
    np.random.default_rng(4).shuffle(several)
    keys = sortable(pa.array([value for _, value in several], arrow))
    places = sort_places([keys]).tolist()
    expected = sorted(range(len(several)), key=lambda at: (several[at][0], at))
    assert places == expected
    bounds = sortable(pa.array(values[::2], arrow))
    found = places_in(keys, bounds).tolist()
    assert found == [-2 if rank == 0 else (rank - 1) // 2 for rank, _ in several]
    splits = sortable(pa.array([None, *values[1::2]], arrow))
    ranks = [0, *range(2, len(ranked), 2)]
    counted = [sum(split <= rank for split in ranks) for rank, _ in several]
    assert ranges_of([keys], [splits]).tolist() == counted


def test_the_two_zeros_are_one_value_and_every_nan_is() -> None:
    """CMP-5."""
    other = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    keys = sortable(pa.array([0.0, -0.0, *other, NAN, None, None], pa.float64()))
    assert len(set(keys.to_pylist()[:2])) == 1
    assert len(set(keys.to_pylist()[2:5])) == 1
    sliced = pa.array([9.0, None, -1.0, 1.0]).slice(1)
    assert sort_places([sortable(sliced)]).tolist() == [0, 1, 2]
    wide = pa.array([D("3.0"), None, D("-1.0"), D("1.0")], pa.decimal128(9, 1)).slice(1)
    assert sort_places([sortable(wide)]).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("axes", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (5, 2)])
def test_a_step_on_hilberts_curve_is_a_step_in_the_grid(axes: int, bits: int) -> None:
    """CMP-5: each point occurs once. Z-order interleaves the bits."""
    points = np.array(list(itertools.product(range(1 << bits), repeat=axes)), np.uint64).T
    codes = hilbert(list(points), bits)
    assert sorted(codes.tolist()) == list(range(1 << (axes * bits)))
    steps = np.abs(np.diff(points[:, np.argsort(codes)].astype(int), axis=1)).sum(axis=0)
    assert set(steps.tolist()) == {1}
    woven = [
        int("".join(f"{int(v):0{bits}b}"[at] for at in range(bits) for v in point), 2)
        for point in points.T
    ]
    assert z_order(list(points), bits).tolist() == woven


def test_all_bits_fit_into_a_number() -> None:
    """CMP-5."""
    assert [axis_bits(n) for n in (1, 2, 4, 5, 8, 32)] == [16, 16, 16, 12, 8, 2]


# --- tables --------------------------------------------------------------------------------------

COLUMNS = pa.schema([(name, arrow) for name, (arrow, _) in VALUES.items()])
ROWS = st.lists(
    st.tuples(*(st.sampled_from([None, *values]) for _, values in VALUES.values())), max_size=40
)


def counted(table: pa.Table) -> Counter[str]:
    return Counter(str(row) for row in table.to_pylist())


@pytest.mark.slow
@examples(40)
@given(ROWS, st.lists(st.sampled_from(list(VALUES)), min_size=1, unique=True), st.data())
def test_no_row_is_lost_and_a_linear_order_is_that_of_the_columns(
    given_rows: list[tuple[Any, ...]], by: list[str], data: st.DataObject
) -> None:
    """CMP-5: any types together, NULL and NaN among them; the same rows, in files or ranges."""
    curve = data.draw(st.sampled_from(CURVES))
    columns = list(zip(*given_rows, strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, COLUMNS, strict=True)]
    whole = pa.Table.from_arrays(arrays, schema=COLUMNS)
    table = Table(create(memory(), COLUMNS))
    cut = len(given_rows) // 2
    for part in (whole.slice(0, cut), whole.slice(cut)):
        table.append(part)
    commit = table.cluster(by, curve=curve)
    assert commit.no_op == (not given_rows)
    found = table.to_arrow()
    assert counted(found) == counted(whole)
    if curve == "linear" or len(by) == 1:
        ranks = [
            tuple(_rank(name, row[name]) for name in by) for row in found.select(by).to_pylist()
        ]
        assert ranks == sorted(ranks)


def _rank(name: str, value: Any) -> int:
    if value is None:
        return -1
    if isinstance(value, float) and math.isnan(value):
        return len(VALUES[name][1])
    return VALUES[name][1].index(value)


def grid(side: int) -> pa.Table:
    """All points of a square in no order."""
    points = np.random.default_rng(3).permutation(side * side)
    x, y = points // side, points % side
    return pa.table({"id": points, "x": x, "y": [f"y{v:04}" for v in y], "f": x / 2})


@pytest.mark.share(2)
@pytest.mark.parametrize(("curve", "most"), [("zorder", 14), ("hilbert", 16), ("linear", 70)])
def test_a_query_of_either_column_reads_fewer_files(
    curve: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMP-5: the number of files that a point, a row and a column of the square open."""
    points = grid(160)
    table = tablefmt.create(tmp_path, points.schema)
    for n in range(4):
        table.append(points.slice(n * 6400, 6400))
    size = table.scan().explain()
    assert [table.scan(where=w).files().num_rows for w in ("x = 7", "y = 'y0008'")] == [4, 4]
    total = int(np.sum(table.scan().files()["size"].to_numpy()))
    # Rows wait on disk, and ranges are many.
    monkeypatch.setattr("tablefmt.data.file_rewrite.RANGE_BYTES", 100_000)
    monkeypatch.setattr("tablefmt.data.file_rewrite.SPILL_BYTES", 200_000)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 128)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 128)
    commit = table.cluster(["x", "y"], curve=curve, target_file_size=total // 64)  # type: ignore[call-overload]
    files = table.scan().files()
    assert 60 <= files.num_rows <= 70, size
    assert commit.metrics["numAddedFiles"] == files.num_rows
    rows_of = files["rows"].to_pylist()
    assert max(rows_of) - min(rows_of[:-1]) == 0
    assert table.to_arrow().sort_by("id").equals(points.sort_by("id"))
    opened = {
        where: table.scan(where=where).files().num_rows
        for where in ("x = 7", "y = 'y0008'", "x = 7 AND y = 'y0008'")
    }
    assert opened["x = 7"] <= most
    assert opened["y = 'y0008'"] <= most
    assert opened["x = 7 AND y = 'y0008'"] <= 3
    if curve == "linear":
        assert opened["x = 7"] <= 2
    assert_sound(table.context.store)


def test_partitions_are_put_in_order_by_themselves(tmp_path: Path) -> None:
    """CMP-5, CMP-3: only partitions of the condition are clustered, without their deleted rows."""
    table = new_table(partitioned=True)
    for n in range(3):
        table.append(rows(9 - n, 19 - n, 29 - n, p=["a", "b", "c"]))
    table.delete("id = 8")
    plan = table.cluster("id", where="p < 'c'", dry_run=True)
    assert str(plan).splitlines()[1:] == [
        "  group 0: 2 files into 1",
        "  group 1: 3 files into 1",
        "  5 files: its partition is clustered",
    ]
    told: list[tuple[int, int]] = []
    table.cluster(["ID"], where="p < 'c'", progress=lambda *at: told.append(at))
    assert told == [(1, 2), (2, 2)]
    assert table.to_arrow()["id"].to_pylist() == [29, 28, 27, 7, 9, 17, 18, 19]
    parameters = dict(table.history(1)["operationParameters"][0].as_py())
    assert parameters == {
        "clusterBy": "id",
        "curve": "zorder",
        "predicate": "`p` < 'c'",
        "targetFileSize": str(128 << 20),
    }
    history = table.history(2)
    assert history["timeVersion"][0] == history["timeVersion"][1]
    assert table.cluster("id", commit_every=1).metrics["numRemovedFiles"] == 5
    assert table.version == 8
    assert_sound(table.context.store)


def test_bounds_are_those_of_rows_in_order(tmp_path: Path) -> None:
    """PRN-12, DAT-9: NaN has files of its own at the end."""
    table = tablefmt.create(tmp_path, "x DOUBLE")
    values = [3.0, NAN, -0.0, None, 1.0, NAN, 2.0, 0.0]
    table.append({"x": values})
    table.append({"x": [7.0, -7.0]})
    sizes = sum(table.scan().files()["size"].to_pylist())
    table.cluster("x", target_file_size=sizes // 5)
    parts = [
        pq.read_table(tmp_path / path)["x"].to_pylist()
        for path in table.scan().files()["path"].to_pylist()
    ]
    assert [str(v) for part in parts for v in part] == [
        "None", "-7.0", "-0.0", "0.0", "1.0", "2.0", "3.0", "7.0", "nan", "nan",
    ]  # fmt: skip
    assert table.scan(where="x > 100").to_arrow()["x"].to_pylist() != []
    assert table.scan(where="x = 0").count() == 2


def test_an_insert_may_come_meanwhile_and_a_delete_may_not() -> None:
    """CFL-2, CFL-11."""
    table = new_table()
    for n in range(3):
        table.append(rows(n))
    late, later = table.transaction().cluster("id"), table.transaction().cluster(["id"])
    table.append(rows(9))
    assert late.commit().rebased_over == (4,)
    with pytest.raises(ConcurrentDeleteDeleteException):
        later.commit()
    assert ids(table.refresh()) == [0, 1, 2, 9]
    assert len(data_files(table.context.store)) == 5
    assert_sound(table.context.store)


def test_a_disk_too_full_for_buffers_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMP-6, CMT-7."""
    table = new_table()
    for n in range(3):
        table.append(rows(*range(n * 1000, n * 1000 + 1000)))
    monkeypatch.setattr("tablefmt.data.file_rewrite.SPILL_BYTES", 10_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not there"))
    with pytest.raises(CommitRejectedError, match="set TMPDIR"):
        table.cluster("id")
    assert data_files(table.context.store) == live_files(table.context.store)
    assert table.refresh().version == 3


def test_nothing_waits_on_disk_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CMP-6: buffers are deleted after success and after an error."""
    table = new_table()
    table.append(rows(*range(3000)))
    monkeypatch.setattr("tablefmt.data.file_rewrite.SPILL_BYTES", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table.cluster("id")
    assert list(tmp_path.iterdir()) == []

    def fails(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tablefmt.data.file_rewrite.write_groups", fails)
    with pytest.raises(KeyboardInterrupt):
        table.cluster("id")
    assert list(tmp_path.iterdir()) == []
    assert table.refresh().version == 2


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ([], "no column"),
        ("", "no such column"),
        (["nope"], "'nope': no such column; there are 'id', 'p', 'l'"),
        (["l"], "nested"),
        (["l.element"], "no such column"),
        (["id", "ID"], "named twice"),
        (["p"], "is a partition column"),
        ([3], "expected a column name or a list of column names"),
        (["id"] * 40, "at most 32"),
    ],
)
def test_columns_that_make_no_order_are_refused_before_anything_is_done(
    by: Any, words: str
) -> None:
    """CMP-5: an empty table refuses them too."""
    table = new_table(partitioned=True)
    table.alter.add_column("l", "ARRAY<INT>")
    for asked in (table.cluster, table.transaction().cluster):
        with pytest.raises(SchemaMismatchError, match=words):
            asked(by)
    with pytest.raises(SchemaMismatchError, match=words):
        table.cluster(by, dry_run=True)


def test_other_arguments_are_refused_too() -> None:
    """CMP-4."""
    table = new_table()
    with pytest.raises(InvalidRangeError, match="zorder, hilbert, linear"):
        table.cluster("id", curve="peano")  # type: ignore[call-overload]
    with pytest.raises(InvalidRangeError, match="target_file_size"):
        table.cluster("id", target_file_size=0)
    with pytest.raises(InvalidRangeError, match="commit_every"):
        table.cluster("id", commit_every=0)
    assert table.cluster("id").no_op
    assert behind(table, table.context.store).cluster("id", dry_run=True).groups == ()


def test_an_order_is_for_columns_that_were_renamed_and_added_too(tmp_path: Path) -> None:
    """DAT-4, SCH-7: the present names count. Files without a column have its initial value."""
    table = tablefmt.create(tmp_path, "a INT, `b.c` STRING")
    table.append({"a": [3, 1], "b.c": ["x", "y"]})
    table.alter.rename_column("a", "n")
    table.alter.add_column("d", "INT", default=5)
    table.append({"n": [2], "b.c": [None], "d": [1]})
    table.cluster(["d", "b.c", "n"], curve="linear")
    assert table.to_arrow().to_pylist() == [
        {"n": 2, "b.c": None, "d": 1},
        {"n": 3, "b.c": "x", "d": 5},
        {"n": 1, "b.c": "y", "d": 5},
    ]
    assert table.scan().files().num_rows == 1
    assert_sound(table.context.store)
