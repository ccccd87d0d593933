"""Files that lack the columns they are partitioned by: the values come from the entry."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.log.object_names import data_folder
from tablefmt.model.log_entry import AddedFiles
from tablefmt.model.scalar_values import encode
from tablefmt.operations.append import append_files
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import commit_staged
from tablefmt.table import Table

KINDS: dict[str, tuple[str, list[Any]]] = {
    "s": ("STRING", ["EU", "a'b\\", None]),
    "d": ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "n": ("DECIMAL(10,2)", [Decimal("1.50"), Decimal("-0.01"), None]),
    "t": ("TIMESTAMP", [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), None, None]),
    "b": ("BOOLEAN", [True, False, None]),
    "y": ("BINARY", [b"", b"\xff\x00", None]),
    "l": ("BIGINT", [2**62, -1, None]),
    "f": ("DOUBLE", [1.5, float("inf"), None]),
}


def without_columns(
    uri: str, first: str = "x", kinds: dict[str, tuple[str, list[Any]]] = KINDS
) -> tuple[Table, list[dict[str, Any]]]:
    """A table of three files without any column they are partitioned by; and its rows."""
    ddl = f"`{first}` BIGINT, " + ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    table = tablefmt.create(uri, ddl, partition_by=list(kinds))
    metadata = table.context.view.head.metadata
    transaction = "f" * 32
    columns: dict[str, list[Any]] = {"path": [], "size": [], "rows": []}
    rows = []
    folder = Path(uri) / data_folder(transaction)
    folder.mkdir(parents=True)
    for at in range(3):
        path = folder / f"s={at}.parquet"
        pq.write_table(pa.table({first: [at, at + 10]}), path, write_page_checksum=True)
        columns["path"].append(os.path.relpath(path, uri))
        columns["size"].append(path.stat().st_size)
        columns["rows"].append(2)
        values = {name: given[at] for name, (_, given) in kinds.items()}
        rows += [{first: at, **values}, {first: at + 10, **values}]
    for name, (_, given) in kinds.items():
        column = metadata.schema.find(name)
        assert column is not None
        array = pa.array(given, table.schema.field(name).type)
        columns[f"partition.{column.id}"] = encode(array, column.type)
    added = AddedFiles(columns)
    staged = append_files(transaction, added, metadata, read_version=0)
    commit_staged(table.context, staged, CommitOptions())
    return tablefmt.open(uri), rows


@pytest.mark.parametrize("first", ["x", "__filename"])
def test_a_value_that_a_file_lacks_comes_from_the_entry(tmp_path: Path, first: str) -> None:
    """DAT-8: rows, conditions on what is not in the file, counts; with Arrow's scanner and not."""
    table, rows = without_columns(str(tmp_path / "t"), first)
    assert table.to_arrow().to_pylist() == rows
    for where, test in (
        ("s = 'EU'", lambda r: r["s"] == "EU"),
        ("d IS NULL", lambda r: r["d"] is None),
        ("n < 0", lambda r: r["n"] is not None and r["n"] < 0),
        ("f > 1 AND b", lambda r: r["f"] is not None and r["b"]),
        (f"l = -1 OR `{first}` = 10", lambda r: r["l"] == -1 or r[first] == 10),
    ):
        expected = [row for row in rows if test(row)]
        assert expected, where
        assert table.to_arrow(where=where).to_pylist() == expected, where
        assert table.scan(where=where).count() == len(expected)
    assert table.to_arrow(columns=["s"])["s"].to_pylist() == [row["s"] for row in rows]
    assert table.to_arrow(columns=["f", "y"]).to_pylist() == [
        {"f": row["f"], "y": row["y"]} for row in rows
    ]


def partitioned_by_what_came_later(uri: str) -> tuple[Table, list[dict[str, Any]]]:
    """`q` came with 7 for the rows there were, then the table was partitioned by it: versions 0 to
    2. Version 3 has files of others, without the column, for NULL and 'n'; and its rows.
    """
    table = tablefmt.create(uri, "x BIGINT, p STRING", partition_by=["p"])
    table.append(pa.table({"x": [1, 2], "p": ["a", None]}))
    table.alter.add_column("q", "STRING", default="old")
    table.alter.add_column("f", "DOUBLE", default=7.5)
    table.overwrite(
        pa.table({"x": [3], "p": ["b"], "q": ["m"], "f": [0.5]}),
        overwrite_schema=True,
        partition_by=["q", "f"],
    )
    context = table.context
    metadata = context.view.head.metadata
    ids = {field.name: field.id for field in metadata.schema.fields}
    transaction = "e" * 32
    columns: dict[str, list[Any]] = {"path": [], "size": [], "rows": [1, 1]}
    for x in (4, 5):
        path = Path(uri) / data_folder(transaction) / f"{x}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [x], "p": ["c"]}), path, write_page_checksum=True)
        columns["path"].append(os.path.relpath(path, uri))
        columns["size"].append(path.stat().st_size)
    columns[f"partition.{ids['q']}"] = [None, "n"]
    columns[f"partition.{ids['f']}"] = [None, "-Infinity"]
    version = context.view.head.version
    staged = append_files(transaction, AddedFiles(columns), metadata, read_version=version)
    commit_staged(context, staged, CommitOptions())
    rows = [
        {"x": 3, "p": "b", "q": "m", "f": 0.5},
        {"x": 4, "p": "c", "q": None, "f": None},
        {"x": 5, "p": "c", "q": "n", "f": float("-inf")},
    ]
    return tablefmt.open(uri), rows


def test_null_of_the_log_is_no_initial_value(tmp_path: Path) -> None:
    """DAT-8, SCH-7: partition values come from the log, NULL too.

    Other columns have the initial value.
    """
    table, rows = partitioned_by_what_came_later(str(tmp_path / "t"))
    last = table.version
    assert table.to_arrow().sort_by("x").to_pylist() == rows
    assert table.to_arrow(where="q IS NULL AND f IS NULL").to_pylist() == [rows[1]]
    assert table.to_arrow(where="q = 'old' OR f > 1").to_pylist() == []
    assert table.to_arrow(columns=["f"], where="x = 4").to_pylist() == [{"f": None}]
    old = [
        {"x": 1, "p": "a", "q": "old", "f": 7.5},
        {"x": 2, "p": None, "q": "old", "f": 7.5},
    ]
    before = table.to_arrow(version=last - 2).sort_by("x")
    assert before.to_pylist() == old
    changed = table.changes(starting_version=1).to_arrow()
    marks: list[tuple[str, dict[str, Any]]] = [
        (kind, row) for kind, rows in (("insert", old), ("delete", old)) for row in rows
    ]
    marks += [("insert", row) for row in rows]
    assert sorted(changed["_change_type"].to_pylist()) == sorted(kind for kind, _ in marks)
    for kind, row in marks:
        assert {**row, "_change_type": kind} in changed.select(
            ["x", "p", "q", "f", "_change_type"]
        ).to_pylist()
    for where, expected in (("q = 'old'", 4), ("q IS NULL", 1), ("p IS NULL", 2), ("f = 7.5", 4)):
        found = table.changes(starting_version=1, where=where).to_arrow()
        assert found.num_rows == expected, where
    table.update({"x": "x + 100"}, "q IS NULL")
    assert table.refresh().to_arrow(where="x = 104").to_pylist() == [{**rows[1], "x": 104}]


def test_rows_of_such_files_are_changed_like_others(tmp_path: Path) -> None:
    """DAT-8, DEL-1, INC-3: deletes, updates, and what the append brought."""
    table, rows = without_columns(str(tmp_path / "t"))
    table.delete("s = 'EU' AND x = 0")
    table.update({"x": "x + 100"}, "f IS NULL")
    left = [r for r in rows if r["x"] != 0]
    expected = [{**r, "x": r["x"] + 100} if r["f"] is None else r for r in left]
    assert table.refresh().to_arrow().sort_by("x").to_pylist() == sorted(
        expected, key=lambda r: r["x"]
    )
    changed = table.changes(starting_version=1).to_arrow().to_pylist()
    updated = [r for r in left if r["f"] is None]
    images = [
        ("update_preimage", 3, updated),
        ("update_postimage", 3, [r | {"x": r["x"] + 100} for r in updated]),
    ]
    assert [
        (c["_change_type"], c["_commit_version"], {k: c[k] for k in rows[0]}) for c in changed
    ] == [
        (kind, version, row)
        for kind, version, some in [
            ("insert", 1, rows),
            ("delete", 2, [r for r in rows if r["x"] == 0]),
            *images,
        ]
        for row in some
    ]


def test_a_table_partitioned_anew_reads_its_own_values(tmp_path: Path) -> None:
    """DAT-8: the old files have values of columns that the new ones are not partitioned by."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "x BIGINT, p STRING, q STRING", partition_by=["p"])
    table.append(pa.table({"x": [1], "p": ["a"], "q": ["b"]}))
    rows = {"x": [2, 3], "p": ["c", None], "q": ["d", "e"]}
    table.overwrite(pa.table(rows), overwrite_schema=True, partition_by=["q"])
    fresh = tablefmt.open(uri)
    assert fresh.to_arrow().sort_by("x").to_pydict() == rows
    assert fresh.to_arrow(version=1).to_pylist() == [{"x": 1, "p": "a", "q": "b"}]


def test_a_float_of_the_file_wins_over_that_of_the_log(tmp_path: Path) -> None:
    """DAT-8, VAL-2: negative zero is written as zero in the log, and stays in the file."""
    table = tablefmt.create(str(tmp_path / "t"), "x BIGINT, f DOUBLE", partition_by=["f"])
    table.append(pa.table({"x": [1, 2], "f": [-0.0, 2.0]}))
    assert [str(v) for v in table.to_arrow().sort_by("x")["f"].to_pylist()] == ["-0.0", "2.0"]
