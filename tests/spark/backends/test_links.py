"""Spark opens and writes regular files below the table's root, and follows no link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitRejectedError, CorruptDataError
from tests.spark.streams.draining import drain


def made(root: Path) -> tuple[tablefmt.Table, list[Path]]:
    """A table of two files in folders of their own, and where these are."""
    table = tablefmt.create(root / "table", "id BIGINT, p STRING")
    for number in (1, 2):
        tablefmt.open(table.uri).append({"id": [number], "p": ["a"]})
    table.refresh()
    return table, [root / "table" / path for path in table.scan().files()["path"].to_pylist()]


def linked(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def in_a_linked_folder(path: Path, elsewhere: Path) -> None:
    linked(path.parent, elsewhere)


def below_linked_data(path: Path, elsewhere: Path) -> None:
    linked(path.parents[1], elsewhere)


def a_pipe(path: Path, elsewhere: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path, elsewhere: Path) -> None:
    path.unlink()
    path.mkdir()


WAYS = [linked, in_a_linked_folder, below_linked_data, a_pipe, a_folder]


def refused(read: Callable[[], object]) -> str:
    with pytest.raises(CorruptDataError) as seen:
        read()
    assert seen.value.rule == "DAT-5"
    return str(seen.value)


@pytest.mark.broken_tables
@pytest.mark.parametrize("way", WAYS)
def test_spark_opens_regular_files_alone(
    spark: Any, tmp_path: Path, way: Callable[[Path, Path], None]
) -> None:
    """STO-2, DAT-5: the error is that of a read by Arrow. A named pipe does not block the read."""
    table, (_, second) = made(tmp_path)
    way(second, tmp_path / "elsewhere")
    words = refused(lambda: table.scan(where="id > 1").to_arrow())
    read = tablefmt.spark.read(spark, table.uri)
    assert refused(lambda: read.where("id > 1").collect()) == words
    if way is linked:
        # A link is no error for a query that does not open it.
        assert [row["id"] for row in read.where("id = 1").collect()] == [1]


@pytest.mark.broken_tables
def test_statements_changes_and_streams_open_no_link(spark: Any, tmp_path: Path) -> None:
    """STO-2, DAT-5: every kind of access to the files of a table refuses links."""
    table, (_, second) = made(tmp_path)
    linked(second, tmp_path / "elsewhere")
    opened = tablefmt.spark.open(spark, table.uri)
    refused(lambda: opened.update({"p": "'x'"}, where="abs(id) = 2"))
    refused(lambda: opened.changes(starting_version=0).collect())
    tablefmt.spark.register(spark)
    stream = spark.readStream.format("tablefmt").load(table.uri)
    with pytest.raises(Exception, match="a symbolic link is in the way"):
        drain(stream, tmp_path / "checkpoint", availableNow=True)
    assert tablefmt.open(table.uri).version == 2


def test_spark_writes_through_no_link(spark: Any, tmp_path: Path) -> None:
    """STO-2: `data` is a link, and nothing is created at its target."""
    table = tablefmt.create(tmp_path / "table", "id BIGINT")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "table" / "data").symlink_to(elsewhere)
    before = elsewhere.stat().st_mtime_ns
    with pytest.raises(CommitRejectedError, match="symbolic link"):
        tablefmt.spark.write(spark.range(3), table.uri)
    # Files that were written and removed again would have changed it.
    assert elsewhere.stat().st_mtime_ns == before
    assert tablefmt.open(table.uri).version == 0
