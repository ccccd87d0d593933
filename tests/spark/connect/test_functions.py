"""The functions on a Connect session: same rows, same errors, one commit."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    CommitUnknownError,
    ConcurrentDeleteReadException,
    ConstraintViolationError,
    CorruptDataError,
    InvalidRangeError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.session import staging
from tablefmt.spark import read, write
from tests.spark.looking import data_files, everything, frame_from, rows_of

UTC = dt.timezone.utc
NASTY = [None, "", " ", "/", "..", "%2F", "a=b", "__HIVE_DEFAULT_PARTITION__", "null",
         "ä\U0001f600", "'", "\\", "\n", "x" * 1024]  # fmt: skip

INNER = pa.struct(
    [("a b", pa.int64()), ("deep", pa.list_(pa.struct([("x.y", pa.string())])))]
)  # fmt: skip
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-(1 << 15), (1 << 15) - 1]),
    "int": (pa.int32(), [-(1 << 31), (1 << 31) - 1]),
    "long": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "float": (pa.float32(), [float("nan"), -0.0]),
    "double": (pa.float64(), [float("inf"), 5e-324]),
    "string": (pa.string(), ["", "ä\U0001f600\0"]),
    "binary": (pa.binary(), [b"", b"\0\xff"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1899, 12, 31, 23, 59, 59, 999999, UTC),
            dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        ],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 3, 10, 2, 30)],
    ),
    "decimal": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1")]),
    "array": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "map": (pa.map_(pa.string(), pa.float64()), [[], [("k", None), ("", 1.5)]]),
    "struct": (INNER, [{"a b": None, "deep": []}, {"a b": 1, "deep": [None, {"x.y": "z"}]}]),
}  # fmt: skip


@pytest.fixture(scope="module")
def given() -> pa.Table:
    """Both values of every type, and a row of NULL."""
    columns = {"id": pa.array([0, 1, 2])}
    columns.update({n: pa.array([*v, None], k) for n, (k, v) in COLUMNS.items()})
    return pa.table(columns)


def content(spark: Any, uri: str, **point: Any) -> list[Any]:
    return sorted(map(tuple, read(spark, uri, **point).collect()), key=repr)


def test_every_type_goes_there_and_back_both_ways(connect: Any, uri: str, given: pa.Table) -> None:
    """DAT-1, DAT-4: files of either hold every column."""
    tablefmt.create(uri, given.schema)
    frame = frame_from(connect, given)
    assert write(frame, uri).metrics["numOutputRows"] == 3
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(given)
    assert rows_of(read(connect, uri), given.schema) == rows_of(given)
    again = connect.read.format("tablefmt").load(uri)
    assert rows_of(again, given.schema) == rows_of(given)
    again.write.format("tablefmt").mode("overwrite").save(uri)
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(given)
    assert read(connect, uri).schema == again.schema


def test_variants_go_there_and_back_as_arrow_passes_them(connect: Any, uri: str) -> None:
    """SCH-6, DAT-10: NULL, a null, and values at depth; a type that is none is refused."""
    values = "(1, '{\"a\": [1, \"x\"]}'), (2, 'null'), (3, NULL)"
    rows = connect.sql(
        "select id, parse_json(j) as v, array(named_struct('w', parse_json(j))) as a "
        f"from values {values} as t(id, j)"
    )
    look = ["id", "to_json(v)", "v is null", "to_json(a[0].w)"]
    wanted = [
        (1, '{"a":[1,"x"]}', False, '{"a":[1,"x"]}'), (2, "null", False, "null"),
        (3, None, True, None),
    ]  # fmt: skip
    write(rows, uri)
    assert sorted(map(tuple, read(connect, uri).selectExpr(*look).collect())) == wanted
    again = connect.read.format("tablefmt").load(uri)
    again.write.format("tablefmt").mode("overwrite").save(uri)
    assert sorted(map(tuple, read(connect, uri).selectExpr(*look).collect())) == wanted
    with pytest.raises(SchemaMismatchError, match="v"):
        write(rows.selectExpr("id", "'text' as v"), uri)


@pytest.mark.share(2)
@pytest.mark.parametrize("how", ["function", "format"])
def test_a_row_that_breaks_a_constraint_stops_the_write(connect: Any, uri: str, how: str) -> None:
    """DAT-13: Spark's own expressions or Arrow in the workers check it. The error is ours."""
    table = tablefmt.create(uri, "id BIGINT, t STRING")
    table.alter.add_constraint("few", "id < 20000 AND t <> 'x'")
    rows = connect.range(30000).selectExpr("id", "if(id % 2 = 0, 'a', NULL) AS t")
    before = everything(uri)
    by_format = rows.write.format("tablefmt").mode("append")
    with pytest.raises(ConstraintViolationError, match="'few'") as caught:
        write(rows, uri) if how == "function" else by_format.save(uri)
    assert caught.value.constraint == "few"
    assert caught.value.row is not None
    assert caught.value.row["id"] >= 20000
    assert everything(uri) == before
    write(rows.where("id < 7"), uri)
    assert tablefmt.open(uri).scan().count() == 7


def test_each_partition_value_is_exact(connect: Any, uri: str) -> None:
    """VAL-2, ADD-4: one file a value; no value in a path."""
    rows = pa.table({"id": list(range(len(NASTY) * 2)), "p": pa.array(NASTY * 2, pa.string())})
    table = tablefmt.create(uri, rows.schema, partition_by=["p"])
    write(frame_from(connect, rows).coalesce(1), uri)
    files = table.refresh().context.view.snapshot().files
    assert sorted(map(repr, files["partition.2"].to_pylist())) == sorted(map(repr, NASTY))
    assert rows_of(read(connect, uri)) == rows_of(rows)
    frame_from(connect, rows).coalesce(1).write.format("tablefmt").mode("overwrite").save(uri)
    files = table.refresh().context.view.snapshot().files
    assert sorted(map(repr, files["partition.2"].to_pylist())) == sorted(map(repr, NASTY))


def test_modes_do_what_they_say(connect: Any, uri: str) -> None:
    one, two = connect.range(1), connect.range(1, 2)
    assert write(one, uri, mode="error").version == 1
    with pytest.raises(TableExistsError):
        write(two, uri, mode="errorifexists")
    assert write(two, uri, mode="ignore").no_op
    assert content(connect, uri) == [(0,)]
    assert write(two, uri).version == 2
    assert content(connect, uri) == [(0,), (1,)]
    assert write(two, uri, mode="Overwrite").operation == "OVERWRITE"  # type: ignore[arg-type]
    assert content(connect, uri) == [(1,)]
    assert content(connect, uri, version=2) == [(0,), (1,)]
    with pytest.raises(InvalidRangeError, match="upsert"):
        write(two, uri, mode="upsert")  # type: ignore[arg-type]


def test_a_dataframe_stays_at_the_version_it_was_made_at(connect: Any, uri: str) -> None:
    write(connect.range(3), uri)
    frame = read(connect, uri)
    write(connect.range(3, 9), uri)
    assert frame.count() == 3
    assert len(frame.collect()) == 3
    assert frame.where("id = 1").union(frame.where("id = 2")).count() == 2
    newest: Any = read(connect, uri)
    assert newest.join(frame, "id", "left_anti").count() == 6
    assert f"tablefmt_arrow_{tablefmt.open(uri).id}_v2_" in newest._explain_string()


def test_replacing_partitions_and_writing_once(connect: Any, uri: str) -> None:
    rows = connect.sql("select 1 as id, 'a' as p union all select 2, 'b'")
    write(rows, uri, partition_by=["p"])
    new = connect.sql("select 3 as id, 'b' as p")
    write(new, uri, mode="overwrite", replaceWhere="p = 'b'")
    assert content(connect, uri) == [(1, "a"), (3, "b")]
    for _ in range(2):
        done = write(
            connect.sql("select 4 as id, 'a' as p"), uri, mode="overwrite",
            partitionOverwriteMode="dynamic", application=("job", 1),
        )  # fmt: skip
    assert done.already_applied
    assert content(connect, uri) == [(3, "b"), (4, "a")]


def test_optimized_writes_make_few_files(connect: Any, uri: str) -> None:
    rows = connect.range(0, 100, 1, 4).selectExpr("id", "id % 2 as `a b`")
    commit = write(rows, uri, partition_by=["a b"], optimizeWrite=True)
    assert commit.metrics["numFiles"] == 2
    assert len(content(connect, uri)) == 100


def test_changes_are_those_of_the_arrow_reader(connect: Any, uri: str) -> None:
    """INC-3."""
    write(connect.range(3), uri)
    write(connect.range(3, 5), uri, mode="overwrite")
    changes = tablefmt.open(uri).changes(starting_version=1)
    found = tablefmt.spark.open(connect, uri).changes(starting_version=1)
    assert rows_of(found, changes.schema) == rows_of(changes.to_arrow())


def test_casts_are_those_of_an_insert(connect: Any, uri: str) -> None:
    """DAT-2."""
    tablefmt.create(uri, "id BIGINT, s STRUCT<a: BIGINT, b: STRING>, d DOUBLE, t STRING")
    write(connect.sql("select named_struct('B', 'x', 'A', 1) as S, 2 as ID, 3 as t"), uri)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [
        {"id": 2, "s": {"a": 1, "b": "x"}, "d": None, "t": "3"}
    ]


@pytest.mark.parametrize(
    ("query", "kind", "columns"),
    [
        ("select 1L as id, 1 as x", SchemaMismatchError, ["x"]),
        ("select array(1) as id", SchemaMismatchError, ["id"]),
        ("select 1L as id, 3000000000L as p", SchemaMismatchError, ["p"]),
        ("select 1 as p", SchemaMismatchError, ["id"]),
        ("select bigint(null) as id", ConstraintViolationError, None),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    connect: Any, uri: str, query: str, kind: type[Exception], columns: list[str] | None
) -> None:
    """DAT-2, DAT-3, F2."""
    tablefmt.create(uri, "id BIGINT NOT NULL, p INT")
    before = everything(uri)
    with pytest.raises(kind) as caught:
        write(connect.sql(query), uri)
    assert type(caught.value) is kind
    if columns is not None:
        assert caught.value.columns == columns  # type: ignore[attr-defined]
    assert everything(uri) == before


def test_errors_are_those_of_every_other_entry_point(connect: Any, uri: str) -> None:
    with pytest.raises(TableNotFoundError):
        read(connect, uri)
    write(connect.range(10), uri)
    with pytest.raises(VersionNotFoundError):
        read(connect, uri, version=5)
    with pytest.raises(InvalidRangeError):
        read(connect, uri, version=1, timestamp="2024-01-01")
    tablefmt.create("memory://t", "id BIGINT", exist_ok=True)
    for call in (lambda: read(connect, "memory://t"),
                 lambda: write(connect.range(1), "memory://t")):  # fmt: skip
        with pytest.raises(UnsupportedFeatureError, match="memory://"):
            call()
    path = Path(data_files(uri)[0])
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    with pytest.raises(CorruptDataError, match=path.name):
        read(connect, uri).collect()


def test_a_task_that_is_tried_again_leaves_one_copy(connect: Any, uri: str, tmp_path: Path) -> None:
    """F1: files of attempts that lost are in no version and not on disk."""
    flag = str(tmp_path / "failed once")

    def failing(batches: Any) -> Any:
        import os

        for batch in batches:
            yield batch
            if batch.num_rows and batch.column(0)[0].as_py() == 2000 and not os.path.exists(flag):
                open(flag, "w").close()
                raise RuntimeError("the first attempt fails")

    frame = connect.range(0, 3000, 1, 3).mapInArrow(failing, "id long")
    commit = write(frame, uri)
    assert Path(flag).exists()
    assert commit.metrics["numOutputRows"] == 3000
    assert len(data_files(uri)) == commit.metrics["numFiles"]
    assert content(connect, uri) == [(i,) for i in sorted(range(3000), key=lambda i: repr((i,)))]


def test_writers_at_once_lose_nothing(connect: Any, uri: str) -> None:
    """CMT-1: two appends, one after the other in the log."""
    write(connect.range(0, 1), uri)
    done: list[Any] = []

    def writing(start: int) -> None:
        done.append(write(connect.range(start, start + 5), uri))

    threads = [threading.Thread(target=writing, args=(10 * i,)) for i in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(c.version for c in done) == [2, 3]
    assert len(content(connect, uri)) == 11


def test_files_of_a_commit_that_may_be_there_are_kept(
    connect: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMT-9."""
    write(connect.range(1), uri)
    before = len(data_files(uri))

    def lost(*_: Any, **__: Any) -> Any:
        raise CommitUnknownError("ab" * 16, 2)

    monkeypatch.setattr(staging, "commit_staged", lost)
    with pytest.raises(CommitUnknownError):
        write(connect.range(0, 5, 1, 1), uri)
    assert len(data_files(uri)) == before + 1


def test_a_query_of_the_table_itself_is_no_blind_append(connect: Any, uri: str) -> None:
    """CFL-22, CFL-8: the plan shows the read. A fixed version is a constant."""
    write(connect.range(3), uri)
    table = tablefmt.open(uri)
    by_format = connect.read.format("tablefmt").load(uri)
    by_format.createOrReplaceTempView("itself")
    for query, blind in (
        (read(connect, uri).selectExpr("id + 10 AS id"), False),
        (by_format.groupBy().count().selectExpr("count AS id"), False),
        (connect.sql("SELECT max(id) AS id FROM itself"), False),
        (connect.range(5).where("id IN (SELECT id FROM itself)"), False),
        (read(connect, uri, version=1), True),
        (connect.range(2), True),
    ):
        write(query, uri)
        newest = table.history(1).to_pylist()[0]
        assert newest["isBlindAppend"] is blind
    before = table.refresh().version
    query = read(connect, uri)
    table.delete("id = 12")
    with pytest.raises(ConcurrentDeleteReadException):
        write(query.selectExpr("id + 100 AS id"), uri)
    assert table.refresh().version == before + 1


@pytest.mark.soak
def test_changes_of_every_kind_are_those_of_the_arrow_reader(connect: Any, uri: str) -> None:
    """INC-3, INC-5, INC-6: the method and the format give the same changes."""
    write(connect.range(6), uri)
    table = tablefmt.open(uri)
    table.update({"id": "id + 10"}, "id < 2")
    table.delete("id > 3")
    table.restore(version=1)
    tablefmt.spark.register(connect)
    for content in ("changes", "net", "append"):
        wanted = table.changes(starting_version=1, content=content)
        verb = tablefmt.spark.open(connect, uri).changes(starting_version=1, content=content)
        reader = connect.read.format("tablefmt").option("readChangeFeed", True)
        by_format = reader.option("startingVersion", 1).option("changeContent", content).load(uri)
        for frame in (verb, by_format):
            assert rows_of(frame, wanted.schema) == rows_of(wanted.to_arrow()), content
