"""Tables are not created among foreign files, and an open names those files. Spec: STO-23."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import ForeignTableError, TableNotFoundError
from tablefmt.operations.save_modes import write as write_rows
from tablefmt.session.commit_options import CommitOptions
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import CountingStore

ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
SCHEMA = ROWS.schema

PLACES = {
    "a Delta table is there": ["_delta_log/00000000000000000000.json", "part-00000-x.c000.parquet"],
    "an Iceberg table is there": ["data/00000-0-x.parquet", "metadata/v1.metadata.json"],
    "a Hudi table is there": [".hoodie/hoodie.properties", "x.parquet"],
    "plain Parquet files are there": ["p=a/q=1/0.parquet", "_SUCCESS"],
    "plain ORC files are there": ["0.snappy.orc"],
    "data files are there": ["_SUCCESS", "part-00000-x-c000.csv.gz"],
}
HARMLESS = [
    *(".DS_Store", "_SUCCESS", "README.md", ".part-00000.crc", "_temporary/0/part-00000", "a.txt"),
    *("notes.json", "pictures/cat.png", "metadata/notes.md", "_metadata", ".x.parquet"),
    *("other/_log/00000000000000000000.json", "other/data/" + "a" * 32 + "/0.parquet"),
    *("data/" + "a" * 32 + "/0.parquet", "deletes/" + "b" * 32 + ".parquet"),
    "lake/events/_delta_log/00000000000000000000.json",
]

MADE: dict[str, Callable[[str], Any]] = {
    "create": lambda uri: tablefmt.create(uri, SCHEMA),
    "create, exist_ok": lambda uri: tablefmt.create(uri, SCHEMA, exist_ok=True),
    "create with rows": lambda uri: tablefmt.create(uri, ROWS),
    "append": lambda uri: tablefmt.write(ROWS, uri),
    "overwrite": lambda uri: tablefmt.write(ROWS, uri, mode="overwrite"),
    "error": lambda uri: tablefmt.write(ROWS, uri, mode="error"),
    "ignore": lambda uri: tablefmt.write(ROWS, uri, mode="ignore"),
}


def lay(root: Path, names: list[str]) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("verb", MADE)
def test_no_verb_makes_a_table_inside_a_delta_table(tmp_path: Path, verb: str) -> None:
    lay(tmp_path, PLACES["a Delta table is there"])
    before = tree(tmp_path)
    with pytest.raises(ForeignTableError, match=r"a Delta table is there.*folder of its own"):
        MADE[verb](str(tmp_path))
    with pytest.raises(ForeignTableError, match=f"it lies in a Delta table at {tmp_path}"):
        MADE[verb](str(tmp_path / "year=2024" / "x"))
    assert tree(tmp_path) == before


@pytest.mark.parametrize("found", PLACES)
def test_what_is_there_is_named(tmp_path: Path, found: str) -> None:
    lay(tmp_path, PLACES[found])
    with pytest.raises(ForeignTableError) as refused:
        tablefmt.write(ROWS, tmp_path)
    assert (refused.value.found, refused.value.uri) == (found, str(tmp_path))
    assert refused.value.where in PLACES[found]
    with pytest.raises(TableNotFoundError, match=found) as caught:
        tablefmt.open(tmp_path)
    assert caught.value.found == found
    for error in (refused.value, caught.value):
        assert "tablefmt.import_table()" in str(error)
        assert "tablefmt.write()" in str(error)
    assert not tablefmt.exists(tmp_path)


def test_a_dataset_of_pyarrow_is_found(tmp_path: Path) -> None:
    pq.write_to_dataset(ROWS, tmp_path, partition_cols=["p"])
    with pytest.raises(ForeignTableError, match="plain Parquet files are there"):
        tablefmt.write(ROWS, tmp_path)
    with pytest.raises(TableNotFoundError, match="plain Parquet files are there"):
        tablefmt.open(tmp_path)


def test_a_long_table_of_iceberg_is_told_by_its_metadata(tmp_path: Path) -> None:
    lay(tmp_path, [f"data/{n:05}.parquet" for n in range(1100)])
    lay(tmp_path, ["metadata/00001-x.metadata.json"])
    with pytest.raises(TableNotFoundError, match="an Iceberg table is there"):
        tablefmt.open(tmp_path)


def test_unrelated_files_stop_no_creation(tmp_path: Path) -> None:
    lay(tmp_path, HARMLESS)
    tablefmt.write(ROWS, tmp_path)
    assert tablefmt.open(tmp_path).to_arrow().to_pydict() == ROWS.to_pydict()


def test_a_copied_table_and_a_dropped_one_are_no_foreign_ones(tmp_path: Path) -> None:
    tablefmt.write(ROWS, tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    tablefmt.write(ROWS, tmp_path / "copy")
    assert tablefmt.open(tmp_path / "copy").scan().count() == 4
    tablefmt.drop(tmp_path / "t")
    tablefmt.write(ROWS, tmp_path / "t")
    assert tablefmt.open(tmp_path / "t").to_arrow().to_pydict() == ROWS.to_pydict()


def test_a_table_that_is_there_is_used_whatever_lies_beside_it(tmp_path: Path) -> None:
    tablefmt.write(ROWS, tmp_path)
    lay(tmp_path, PLACES["a Delta table is there"])
    tablefmt.write(ROWS, tmp_path)
    assert tablefmt.open(tmp_path).scan().count() == 4


def test_a_creation_costs_one_listing() -> None:
    store = CountingStore(MemoryStore(uuid.uuid4().hex))
    write_rows(store, ROWS, CommitOptions())
    assert [key for verb, key in store.requests if verb == "list_after" and not key] == [""]
    store.reset()
    write_rows(store, ROWS, CommitOptions())
    tablefmt.table.open_at(store)
    assert ("list_after", "") not in store.requests
