"""Tables that are made with rows: `create` by data, and `write` by a mode."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    StoreError,
    TableExistsError,
    TablefmtError,
)
from tablefmt.operations import create
from tablefmt.operations.create import create_as
from tablefmt.store.memory_store import MemoryStore
from tests.scheduling import without_address

_numbers = itertools.count()


def place() -> str:
    return f"memory://write-{next(_numbers)}"


def rows_at(uri: str, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tablefmt.open(uri).to_arrow(**how).to_pylist()
    return rows


ROWS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
DATA: list[Any] = [
    ROWS,
    {"a": [1, None], "b": ["x", "y"]},
    pa.Table.from_pylist(ROWS),
    polars.DataFrame(ROWS),
    pa.RecordBatchReader.from_batches(
        pa.schema({"a": pa.int64(), "b": pa.string()}), [pa.RecordBatch.from_pylist(ROWS)]
    ),
]


@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
def test_data_in_the_place_of_a_schema_makes_a_table_with_rows(data: Any) -> None:
    """Version 0 is the definition, version 1 the rows."""
    table = tablefmt.create(
        place(), data, partition_by=["b"], properties={"checkpointInterval": "7"}, comment="mine"
    )
    assert table.schema == pa.schema({"a": pa.int64(), "b": pa.string()})
    assert (table.version, table.partition_by, table.comment) == (1, ["b"], "mine")
    assert table.properties == {"checkpointInterval": "7"}
    assert sorted(rows_at(table.uri), key=lambda row: row["b"]) == ROWS
    assert rows_at(table.uri, version=0) == []
    assert table.history()["operation"].to_pylist() == ["WRITE", "CREATE TABLE"]


def test_rows_of_another_table_are_data() -> None:
    first = tablefmt.create(place(), ROWS)
    assert rows_at(tablefmt.create(place(), first).uri) == ROWS
    assert rows_at(tablefmt.create(place(), first.scan(where="a = 1")).uri) == ROWS[:1]
    empty = tablefmt.create(place(), pa.schema({"a": pa.int8()}).empty_table())
    assert (empty.version, empty.schema) == (0, pa.schema({"a": pa.int8()}))


def test_definitions_go_on_to_be_definitions() -> None:
    """A dict of columns that are called like the parts of Spark's JSON form is data."""
    spark = {"type": "struct", "fields": [
        {"name": "a", "type": "long", "nullable": True, "metadata": {}}]}  # fmt: skip
    schema = pa.schema({"a": pa.int64()})

    class Exporter:
        def __arrow_c_schema__(self) -> Any:
            return schema.__arrow_c_schema__()

    for definition in ("a BIGINT", schema, spark, Exporter()):
        table = tablefmt.create(place(), definition)
        assert (table.version, table.schema) == (0, schema)
    odd = tablefmt.create(place(), {"type": ["struct"], "fields": [1]})
    assert rows_at(odd.uri) == [{"type": "struct", "fields": 1}]


NO_TABLE: list[Any] = [
    [], {}, [{}], [{"a": None}], [{"a": 1}, {"a": "x"}], 5, None, object(),
    pa.table({"a": [1], "A": [2]}), pa.array([1]),
]  # fmt: skip


@pytest.mark.parametrize("data", NO_TABLE, ids=without_address)
def test_rows_that_are_none_leave_no_table(data: Any) -> None:
    for make in (lambda uri: tablefmt.create(uri, data), lambda uri: tablefmt.write(data, uri)):
        uri = place()
        with pytest.raises(SchemaMismatchError):
            make(uri)
        assert not tablefmt.exists(uri)
        assert list(MemoryStore(uri.removeprefix("memory://")).list_after("")) == []


def test_a_source_that_breaks_off_leaves_no_table(tmp_path: Path) -> None:
    """No file of it stays either."""

    def batches() -> Any:
        yield pa.record_batch({"a": [1]})
        raise OSError("gone")

    for make in (tablefmt.create, lambda uri, data: tablefmt.write(data, uri)):
        reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
        with pytest.raises(OSError, match="gone"):
            make(str(tmp_path / "t"), reader)
        assert not tablefmt.exists(tmp_path / "t")
        assert [p for p in (tmp_path / "t").rglob("*") if p.suffix == ".parquet"] == []


def test_create_refuses_a_table_that_is_there_before_it_reads() -> None:
    uri = tablefmt.create(place(), ROWS).uri

    def unread() -> Any:
        raise AssertionError("read")
        yield

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), unread())
    with pytest.raises(TableExistsError, match=r"add rows with tablefmt\.write"):
        tablefmt.create(uri, reader)
    with pytest.raises(TableExistsError, match="use mode append"):
        tablefmt.write(reader, uri, mode="error")
    assert tablefmt.write(reader, uri, mode="ignore").no_op
    with pytest.raises(InvalidRangeError, match=r"tablefmt\.write"):
        tablefmt.create(uri, ROWS, exist_ok=True)
    assert rows_at(uri) == ROWS


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore", "errorIfExists"])
def test_every_mode_makes_what_is_missing(mode: str) -> None:
    uri = place()
    commit = tablefmt.write(ROWS, uri, mode=mode, partition_by="b", user_metadata={"k": 1})  # type: ignore[arg-type]
    assert (commit.version, commit.operation, commit.no_op) == (1, "WRITE", False)
    assert commit.metrics["numOutputRows"] == 2
    assert tablefmt.open(uri).partition_by == ["b"]
    assert sorted(rows_at(uri), key=lambda row: row["b"]) == ROWS


def test_modes_on_a_table_that_is_there() -> None:
    """A table keeps its columns by default, as with `tablefmt.spark.write`."""
    uri = place()
    tablefmt.write([{"a": 1}], uri)

    assert tablefmt.write({"a": [2]}, uri).version == 2
    assert tablefmt.write([{"a": 3}], uri, mode="overwrite").version == 3
    assert rows_at(uri) == [{"a": 3}]
    with pytest.raises(SchemaMismatchError, match="None is not tabular data"):
        tablefmt.write(None, uri, mode="overwrite")
    ignored = tablefmt.write([{"a": 4}], uri, mode="ignore")
    assert (ignored.version, ignored.no_op, ignored.operation) == (3, True, "WRITE")
    for mode in ("append", "overwrite"):
        with pytest.raises(SchemaMismatchError, match="lacks: 'b'"):
            tablefmt.write([{"b": 1}], uri, mode=mode)
    assert tablefmt.write([{"b": 5}], uri, merge_schema=True).version == 4
    assert rows_at(uri) == [{"a": 3, "b": None}, {"a": None, "b": 5}]
    tablefmt.write(ROWS, uri, mode="overwrite", overwrite_schema=True, partition_by="b")
    assert tablefmt.open(uri).partition_by == ["b"]
    assert sorted(rows_at(uri), key=lambda row: row["b"]) == ROWS
    assert tablefmt.write(ROWS, uri, partition_by=["B"]).version == 6
    for names in ("a", ["b", "a"]):
        for mode in ("append", "overwrite"):
            with pytest.raises(SchemaMismatchError, match="partitioned by 'b'"):
                tablefmt.write(ROWS, uri, mode=mode, partition_by=names)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "how",
    [{"mode": "upsert"}, {"mode": None}, {"overwrite_schema": True},
     {"mode": "overwrite", "merge_schema": True}, {"mode": "ignore", "merge_schema": True}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_anything(how: Any) -> None:
    uri = place()
    with pytest.raises(InvalidRangeError):
        tablefmt.write(ROWS, uri, **how)
    assert not tablefmt.exists(uri)


def test_an_application_version_is_written_once() -> None:
    uri = place()
    first = tablefmt.write(ROWS, uri, application=("job", 1))
    again = tablefmt.write(ROWS, uri, application=("job", 1))
    assert (first.version, again.version, again.already_applied) == (1, 1, True)
    assert rows_at(uri) == ROWS


def race(uri: str, *writes: Any) -> list[Any]:
    """Run the writes in threads that begin together. Return the answer of each."""
    answers: list[Any] = [None] * len(writes)
    start = threading.Barrier(len(writes))

    def run(at: int) -> None:
        start.wait()
        try:
            answers[at] = writes[at](uri)
        except TablefmtError as error:
            answers[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(writes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_first_writers_at_once_all_append(tmp_path: Path) -> None:
    """This holds for streams that can be read once, and for data of another type that fits."""
    for number in range(3):
        uri = str(tmp_path / str(number))

        def stream(at: int) -> pa.RecordBatchReader:
            batch = pa.record_batch({"a": pa.array([at], pa.int16() if at % 2 else pa.int32())})
            return pa.RecordBatchReader.from_batches(batch.schema, iter([batch]))

        answers = race(uri, *(lambda u, at=at: tablefmt.write(stream(at), u) for at in range(6)))
        assert sorted(row["a"] for row in rows_at(uri)) == list(range(6))
        assert sorted(answer.version for answer in answers) == [1, 2, 3, 4, 5, 6]


def between(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Do something just before the table of the next writer would be made."""

    def late(*arguments: Any, **how: Any) -> Any:
        monkeypatch.setattr(create, "create_as", create_as)
        act()
        return create_as(*arguments, **how)

    monkeypatch.setattr(create, "create_as", late)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [("append", [{"a": 1}, {"a": 7}]), ("overwrite", [{"a": 7}]), ("ignore", [{"a": 1}])],
)
@pytest.mark.parametrize("columns", ["a BIGINT", "a INT"])
def test_who_comes_second_does_as_if_later(
    mode: str, rows: Any, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = place()
    between(monkeypatch, lambda: tablefmt.create(uri, columns).append([{"a": 1}]))
    commit = tablefmt.write([{"a": 7}], uri, mode=mode)  # type: ignore[arg-type]
    assert (commit.version, commit.no_op) == (1 if mode == "ignore" else 2, mode == "ignore")
    assert rows_at(uri) == rows


def test_who_comes_second_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode error, `create` and another partitioning: the second writer leaves no file."""
    makes: list[Any] = [
        lambda uri: tablefmt.write(ROWS, uri, mode="error"),
        lambda uri: tablefmt.create(uri, ROWS),
        lambda uri: tablefmt.write(ROWS, uri, partition_by=["b"]),
    ]
    for make in makes:
        uri = place()
        between(monkeypatch, lambda uri=uri: tablefmt.create(uri, ROWS))
        with pytest.raises((TableExistsError, SchemaMismatchError)):
            make(uri)
        files = tablefmt.open(uri).scan().files()["path"].to_pylist()
        store = tablefmt.open(uri).context.store
        assert [f.key for f in store.list_after("data/")] == files


def test_an_address_that_makes_no_sense_is_refused() -> None:
    with pytest.raises((StoreError, tablefmt.errors.UnsupportedFeatureError)):
        tablefmt.write(ROWS, "ftp://nowhere")
