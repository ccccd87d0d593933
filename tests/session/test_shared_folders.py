"""Small files in the folder of an earlier transaction: where they go, and that they go again."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import CommitRejectedError, ConcurrentModificationException
from tablefmt.log.object_names import shared_folder_key, shared_folder_transaction
from tablefmt.session import transaction_snapshot
from tablefmt.table import Table
from tests.tables import ids

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def rows(*ids: int, part: str = "a") -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, schema=SCHEMA)


def paths(table: Table) -> list[str]:
    """Return the paths of the live files, in the order of their ids."""
    files: list[str] = table.context.view.snapshot().files["path"].to_pylist()
    return files


def on_disk(table: Table) -> set[str]:
    """All data files that are there."""
    root = Path(table.uri)
    return {str(p.relative_to(root)) for p in root.glob("data/*/*")}


def test_the_first_write_of_a_handle_makes_a_folder_and_small_ones_after_it_go_there(
    tmp_path: Path,
):
    """DAT-1: another handle has another folder."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    first, second, third = [table.append(rows(i)).transaction for i in range(3)]
    other = tablefmt.open(table.uri)
    fourth = other.append(rows(3)).transaction

    assert paths(other) == [
        f"data/{first}/0-0.parquet",
        shared_folder_key(first, second),
        shared_folder_key(first, third),
        f"data/{fourth}/0-0.parquet",
    ]
    assert [shared_folder_transaction(path) for path in paths(other)] == [None, second, third, None]
    assert ids(table.uri) == [0, 1, 2, 3]


def test_what_is_large_or_of_several_partitions_has_a_folder_of_its_own(tmp_path: Path):
    """A folder for many files costs nothing each."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA, partition_by=["part"])
    shared_folder = table.append(rows(0)).transaction
    large = table.append(rows(*range(1, 10_001))).transaction
    both = pa.concat_tables([rows(-1), rows(-2, part="b")])
    several = table.append(both).transaction
    small = table.append(rows(-3, part="c")).transaction

    assert paths(table) == [
        f"data/{shared_folder}/0-0.parquet",
        f"data/{large}/0-0.parquet",
        f"data/{several}/0-0.parquet",
        f"data/{several}/0-1.parquet",
        shared_folder_key(shared_folder, small),
    ]
    assert ids(table.uri) == [-3, -2, -1, *range(10_001)]


def test_a_folder_takes_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The next transaction then creates its own folder."""
    monkeypatch.setattr(transaction_snapshot, "SHARED_FILES_MAX", 2)
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    made = [table.append(rows(i)).transaction for i in range(5)]

    assert [path.split("/")[1] for path in paths(table)] == [made[0]] * 3 + [made[3]] * 2
    assert ids(table.uri) == [0, 1, 2, 3, 4]


def test_a_transaction_of_several_statements_stays_in_its_own_folder(tmp_path: Path):
    """Its folder identifies the files of an aborted transaction."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    table.append(rows(0))
    with table.transaction() as transaction:
        transaction.append(rows(1))
        transaction.append(rows(2))
    assert table.context.view.head.version == 2
    assert len({path.split("/")[1] for path in paths(table)}) == 2
    assert ids(table.uri) == [0, 1, 2]


def test_a_rejected_file_in_a_shared_folder_is_removed_and_others_stay(tmp_path: Path):
    """CMT-1: none of its files stays, and it does not remove the folder of another transaction."""
    properties = {"conflictGranularity": "transaction"}
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    table.append(rows(0))
    before = on_disk(table)
    stale = table.context.view.head.version

    def overtaken() -> Iterator[pa.RecordBatch]:
        # Another handle commits between the look at the head and the entry.
        tablefmt.open(table.uri).append(rows(7))
        yield from rows(1).to_batches()

    with pytest.raises(ConcurrentModificationException):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, overtaken()))
    table.refresh()
    assert table.version == stale + 1
    (concurrent,) = on_disk(table) - before
    assert concurrent == paths(table)[-1]
    assert ids(table.uri) == [0, 7]


def test_a_file_whose_write_fails_in_a_shared_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The disk answers the fsync of the file with an error."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    table.append(rows(0))
    before = on_disk(table)

    def failing(fd: int) -> None:
        raise OSError(5, "injected")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(CommitRejectedError):
            table.append(rows(1))
    assert on_disk(table) == before
    table.append(rows(2))
    assert ids(table.uri) == [0, 2]


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path):
    """A clean-up removes a folder that it finds empty."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    shared_folder = table.append(rows(0)).transaction
    table.delete("true")
    shutil.rmtree(tmp_path / "t" / "data" / shared_folder)
    late = table.append(rows(1)).transaction
    assert paths(table) == [shared_folder_key(shared_folder, late)]
    assert ids(table.uri) == [1]


def test_stores_without_folders_give_every_transaction_its_own():
    """A store without folders has none to create."""
    table = tablefmt.create("memory://without-folders", SCHEMA)
    made = [table.append(rows(i)).transaction for i in range(3)]
    assert paths(table) == [f"data/{one}/0-0.parquet" for one in made]
