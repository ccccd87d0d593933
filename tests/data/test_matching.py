"""Row groups that a scan decodes to find matching rows: the rows are right, and few are decoded."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import arrow_scanner, direct_reader, matching_rows, scan_tasks

ROWS, FILES = 200, 6


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups, windows and bounds by which a few rows take every path."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 40)
    monkeypatch.setattr("tablefmt.data.parquet_writer.LEAST_ROWS", 10)
    monkeypatch.setattr("tablefmt.data.parquet_writer.SAMPLE_ROWS", 32)
    monkeypatch.setattr(matching_rows, "WINDOW_ROWS", ROWS)
    monkeypatch.setattr(matching_rows, "WINDOW_MOST", 2 * ROWS)
    monkeypatch.setattr("tablefmt.data.arrow_scanner.CODED_ROWS", 1)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], int]]:
    """Record the columns and row groups that Arrow scans and reads of picked rows may decode."""
    scans: list[tuple[tuple[str, ...], int]] = []
    real = ds.FileSystemDataset.scanner

    def told(self: Any, columns: Any, **how: Any) -> Any:
        groups = sum(fragment.num_row_groups for fragment in self.get_fragments())
        scans.append((tuple(columns), groups))
        return real(self, columns=columns, **how)

    # The class of an extension cannot be patched: what makes the datasets is.
    class Told(ds.FileSystemDataset):
        scanner = told

    class ToldFile(pq.ParquetFile):
        def iter_batches(self, size: int, *, columns: Any, **how: Any) -> Any:
            groups = how.get("row_groups") or range(self.num_row_groups)
            scans.append((tuple(columns), len(groups)))
            return super().iter_batches(size, columns=columns, **how)

        def read_row_group(self, group: int, *, columns: Any, **how: Any) -> Any:
            scans.append((tuple(columns), 1))
            return super().read_row_group(group, columns=columns, **how)

    monkeypatch.setattr(ds, "FileSystemDataset", Told)
    monkeypatch.setattr(direct_reader, "pq", SimpleNamespace(ParquetFile=ToldFile))
    return scans


def rows_of(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": at,
            "key": chance.randrange(10**6),
            "word": chance.choice(["a", "bb", "", None, "é"]),
            "text": f"{at} {chance.random()}" if at % 11 else None,
            "x": chance.choice([None, 1.5, float(at)]),
        }
        for at in range(ROWS * FILES)
    ]


def table_of(rows: list[dict[str, Any]], uri: Path, gone: str | None) -> tablefmt.Table:
    schema = pa.schema(
        [("id", "int64"), ("key", "int64"), ("word", "string"), ("text", "string"), ("x", "double")]
    )
    table = tablefmt.create(uri, schema)
    with table.transaction() as transaction:
        for start in range(0, len(rows), ROWS):
            transaction.append(pa.Table.from_pylist(rows[start : start + ROWS], schema))
    if gone is not None:
        table.delete(gone)
    return table


CONDITIONS: dict[str, Any] = {
    "id = 777": lambda r: r["id"] == 777,
    "key < 5000": lambda r: r["key"] < 5000,
    "key % 100 = 3": lambda r: r["key"] % 100 == 3,
    "key > 3": lambda r: r["key"] > 3,
    "key < 0": lambda r: False,
    "word = 'bb' AND x = 1.5": lambda r: r["word"] == "bb" and r["x"] == 1.5,
    "length(text) > 22": lambda r: r["text"] is not None and len(r["text"]) > 22,
    "id BETWEEN 150 AND 450 OR key < 9000": lambda r: 150 <= r["id"] <= 450 or r["key"] < 9000,
}


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("piece", [1, 6_000, 1 << 30])
@pytest.mark.parametrize("gone", [None, "id % 13 = 5"])
def test_rows_of_conditions(
    gone: str | None, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-4, DEL-4: this holds for all columns and for some, in order, with a limit and without."""
    monkeypatch.setattr(scan_tasks, "PIECE_BYTES", piece)
    rows = rows_of(11)
    table = table_of(rows, tmp_path / "t", gone)
    live = [row for row in rows if gone is None or row["id"] % 13 != 5]
    # A table is read in one piece, a stream in many.
    assert table.to_arrow().to_pylist() == live
    assert table.to_reader().read_all().to_pylist() == live
    for where, test in CONDITIONS.items():
        expected = [row for row in live if test(row)]
        for columns in (None, ["word", "text"], ["key"], []):
            names = list(rows[0]) if columns is None else columns
            for limit in (None, 3):
                answer = table.to_arrow(columns=columns, where=where, limit=limit)
                assert answer.num_rows == len(expected[:limit]), (where, columns, limit)
                if names:
                    chosen = [{name: row[name] for name in names} for row in expected[:limit]]
                    assert answer.to_pylist() == chosen, (where, columns, limit)
        assert table.scan(where=where).count() == len(expected)


@pytest.mark.parametrize("limit", [1, 39, 40, 41, 199, 200, 201, 1199, 1200, 5000])
@pytest.mark.parametrize("gone", [None, "id < 45 OR id % 13 = 5"])
def test_the_first_rows(gone: str | None, limit: int, tmp_path: Path) -> None:
    """A limit returns the first live rows, also of some columns."""
    rows = rows_of(3)
    table = table_of(rows, tmp_path / "t", gone)
    live = [r for r in rows if gone is None or (r["id"] >= 45 and r["id"] % 13 != 5)]
    assert table.to_arrow(limit=limit).to_pylist() == live[:limit]
    words = [row["word"] for row in live[:limit]]
    assert table.to_arrow(columns=["word"], limit=limit)["word"].to_pylist() == words
    assert table.to_arrow(columns=[], limit=limit).num_rows == len(words)


def test_other_columns_are_decoded_for_row_groups_with_a_match_alone(
    tmp_path: Path, decoded: list[tuple[tuple[str, ...], int]]
) -> None:
    rows = rows_of(5)
    rows[777]["key"] = -1
    table = table_of(rows, tmp_path / "t", None)
    everything = tuple(rows[0])
    decoded.clear()
    assert table.to_arrow(where="key % 2000000 = -1").to_pylist() == [rows[777]]
    wide = [groups for columns, groups in decoded if set(everything) <= set(columns)]
    assert wide == [1], decoded
    assert sum(groups for columns, groups in decoded if columns == ("key",)) == 5 * FILES
    # If every row group has a match, only the first window decodes the condition first.
    decoded.clear()
    assert table.to_arrow(where="key % 2000000 > -1").num_rows == len(rows) - 1
    wide = [groups for columns, groups in decoded if set(everything) <= set(columns)]
    assert wide == [1] * 5 + [5 * (FILES - 1)], decoded


def test_a_filter_pass_that_saved_nothing_is_not_repeated_for_later_tasks() -> None:
    look = matching_rows.LookFirst()
    tried = []
    for task in range(24):
        if look.is_due():
            tried.append(task)
            look.judge(paid=task >= 19)
    assert tried == [0, 2, 5, 10, 19, 20, 21, 22, 23]


def test_text_of_few_values_is_read_as_codes_and_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-4: file by file, for Arrow cannot read others so; with a column that came later."""
    monkeypatch.setattr("tablefmt.data.arrow_scanner.CODED_BYTES", 8)
    read: list[list[str]] = []
    real = arrow_scanner._coded
    monkeypatch.setattr(arrow_scanner, "_coded", lambda names: (read.append(names), real(names))[1])
    rows = rows_of(8)
    table = table_of(rows, tmp_path / "t", "id % 13 = 5")
    table.alter.add_column("later", "STRING", default="new")
    own = [{"id": 10**6 + at, "word": f"own {at}", "later": str(at)} for at in range(ROWS)]
    table.append(own)
    footer = pq.read_metadata(tmp_path / "t" / table.scan().files()["path"].to_pylist()[-1])
    assert "DELTA_LENGTH_BYTE_ARRAY" in footer.row_group(0).column(2).encodings
    answer = table.to_arrow(columns=["word", "later"])
    assert sorted(read) == [[], *[["word"]] * FILES]
    assert answer.schema == pa.schema([("word", "string"), ("later", "string")])
    kept = [{"word": row["word"], "later": "new"} for row in rows if row["id"] % 13 != 5]
    kept += [{"word": row["word"], "later": row["later"]} for row in own]
    assert answer.to_pylist() == kept
    few = table.to_arrow(columns=["word", "later"], where="id % 100 = 2 OR id = 1000007")
    ids = [row["id"] for row in rows if row["id"] % 13 != 5] + [row["id"] for row in own]
    assert few.to_pylist() == [
        row for at, row in zip(ids, kept, strict=True) if at % 100 == 2 or at == 1_000_007
    ]


@pytest.mark.parametrize("gone", [None, "id % 13 = 5"])
@pytest.mark.parametrize(("piece", "groups"), [(1, 1), (2 * 40 * 230, 2), (1 << 30, 15)])
def test_little_is_decoded_ahead_of_a_slow_reader(
    gone: str | None,
    piece: int,
    groups: int,
    tmp_path: Path,
    decoded: list[tuple[tuple[str, ...], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DAT-4: this holds for one large file and for several, also if most rows match."""
    monkeypatch.setattr(scan_tasks, "PIECE_BYTES", piece)
    rows = rows_of(9)[:600]
    schema = pa.schema(
        [("id", "int64"), ("key", "int64"), ("word", "string"), ("text", "string"), ("x", "double")]
    )
    table = tablefmt.create(tmp_path / "t", schema)
    table.append(pa.Table.from_pylist(rows, schema))
    if gone is not None:
        table.delete(gone)
    live = [row for row in rows if gone is None or row["id"] % 13 != 5]
    decoded.clear()
    batches = table.scan().to_batches()
    first = next(batches)
    assert decoded == [(tuple(rows[0]), groups)]
    rest = [row for batch in batches for row in batch.to_pylist()]
    assert first.to_pylist() + rest == live
    assert {scanned for _, scanned in decoded[:-1]} <= {groups}
    assert sum(scanned for _, scanned in decoded) == 15
    passing = [row for row in live if row["id"] >= 100]
    assert table.to_arrow(where="id >= 100").to_pylist() == passing


def test_pieces_are_all_row_groups_in_order(tmp_path: Path) -> None:
    """Every row group is in one piece, whole.

    Pieces are as large as allowed. Empty groups are left out.
    """
    shapes = [(100, 10), (5, 10), (95, 30), (1, 1), (64, 64)]
    paths = [str(tmp_path / f"{at}.parquet") for at in range(len(shapes))]
    for path, (rows, group) in zip(paths, shapes, strict=True):
        pq.write_table(pa.table({"a": range(rows)}), path, row_group_size=group)
    dataset = ds.dataset(paths)
    every = [
        (at, start, min(group, rows - start))
        for at, (rows, group) in enumerate(shapes)
        for start in range(0, rows, group)
    ]
    for parts, expected in (
        (scan_tasks.whole_parts(dataset, [rows for rows, _ in shapes]), every),
        (
            scan_tasks.passing_parts(dataset, pc.field("a") >= 55),
            [each for each in every if each[1] + each[2] > 55],
        ),
    ):
        for budget in (1, 8, 80, 200, 1_000, 10_000):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(scan_tasks, "PIECE_BYTES", budget)
                runs = [positions_of(run, paths) for run in scan_tasks.pieces(parts, [8] * 5)]
            assert [each for run in runs for each in run] == expected
            sizes = [8 * sum(count for _, _, count in run) for run in runs]
            assert all(
                size <= budget or len(run) == 1 for size, run in zip(sizes, runs, strict=True)
            )
            for size, after in zip(sizes, runs[1:], strict=False):
                assert size + 8 * after[0][2] > budget


def positions_of(run: list[scan_tasks.Part], paths: list[str]) -> list[tuple[int, int, int]]:
    """Place of the file, first position and rows of every row group."""
    found = []
    for fragment, spans in run:
        starts, counts = scan_tasks.extents(fragment)
        groups = [(int(starts[group.id]), int(counts[group.id])) for group in fragment.row_groups]
        assert sum(count for _, count in spans) == sum(count for _, count in groups)
        assert spans[0][0] == groups[0][0]
        found += [(paths.index(fragment.path), *group) for group in groups]
    assert len({fragment.path for fragment, _ in run}) == len(run)
    return found
