"""format("tablefmt") and SQL over Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    CommitRejectedError,
    ConstraintViolationError,
    CorruptDataError,
    InvalidArgumentError,
    InvalidRangeError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.spark.connect.conftest import new_session
from tests.spark.looking import data_files, everything, strays
from tests.tables import sorted_rows


def load(spark: Any, uri: str, **options: Any) -> Any:
    return spark.read.format("tablefmt").options(**options).load(uri)


def save(frame: Any, uri: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("tablefmt").mode(mode).options(**options).save(uri)


def test_the_first_write_makes_the_table_and_later_ones_one_version_each(
    connect: Any, uri: str
) -> None:
    """CMT-1."""
    save(connect.range(0, 100, 1, 4).selectExpr("id", "id % 3 as p"), uri, partitionBy="p")
    assert tablefmt.open(uri).partition_by == ["p"]
    assert tablefmt.open(uri).version == 1
    save(connect.range(100, 110, 1, 3).selectExpr("id AS ID"), uri, partitionBy="P")
    assert tablefmt.open(uri).version == 2
    found = sorted_rows(load(connect, uri))
    assert found == sorted_rows(uri)
    assert len(found) == 110
    save(connect.range(3), uri, "overwrite")
    assert sorted_rows(load(connect, uri)) == [(0, None), (1, None), (2, None)]
    assert tablefmt.open(uri).version == 3
    named = tablefmt.open(uri).context.view.snapshot(1).files["path"].to_pylist()
    assert set(named) < {path.removeprefix(f"{uri}/") for path in data_files(uri)}


def test_two_versions_in_one_query(connect: Any, uri: str) -> None:
    """TIM-4."""
    save(connect.range(3), uri)
    save(connect.range(3, 5), uri)
    when = tablefmt.open(uri).history()["timestamp"][0].as_py().isoformat()
    old = load(connect, uri, versionAsOf="1")
    new = load(connect, uri, TIMESTAMPASOF=when)
    assert sorted_rows(old.union(new).groupBy("id").count()) == [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 1),
        (4, 1),
    ]
    assert sorted_rows(old.alias("a").join(new.alias("b"), "id")) == [(0,), (1,), (2,)]


def test_filters_of_one_query_do_not_reach_another(connect: Any, uri: str) -> None:
    """Spark keeps a pushed filter for every query on the same plan; so none is pushed."""
    connect.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        save(connect.range(6), uri)
        frame = load(connect, uri)
        assert frame.schema.names == ["id"]
        assert sorted_rows(frame.where("id = 1")) == [(1,)]
        assert len(sorted_rows(frame)) == 6
        assert sorted_rows(frame.where("id = 1").union(frame.where("id = 2"))) == [(1,), (2,)]
        frame.createOrReplaceTempView("pushed")
        assert sorted_rows(connect.sql("select * from pushed where id = 3")) == [(3,)]
        assert connect.sql("select count(*) from pushed").collect()[0][0] == 6
    finally:
        connect.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_version_stays_whatever_is_written_meanwhile(connect: Any, uri: str) -> None:
    """TIM-4. Without one, Spark analyses a frame for every action; within an action it is one."""
    save(connect.range(3), uri)
    frames = [load(connect, uri, versionAsOf="1"), tablefmt.spark.read(connect, uri)]
    follows = load(connect, uri)
    assert [frame.count() for frame in frames] == [3, 3]
    save(connect.range(3, 5), uri)
    assert [frame.count() for frame in frames] == [3, 3]
    assert len(sorted_rows(load(connect, uri))) == 5
    both = follows.alias("a").join(follows.alias("b"), "id", "full_outer")
    assert both.where("a.id is null or b.id is null").count() == 0
    assert follows.count() == 5


def test_a_temporary_view_stays_at_its_version_and_takes_options(connect: Any, uri: str) -> None:
    save(connect.range(2), uri)
    connect.sql(f"create or replace temporary view now using tablefmt options (path '{uri}')")
    assert sorted_rows(connect.sql("select * from now where id > 0")) == [(1,)]
    save(connect.range(2, 4), uri)
    assert len(sorted_rows(connect.sql("select * from now"))) == 2
    connect.sql(
        f"create or replace temporary view old using tablefmt options (path '{uri}', versionAsOf 1)"
    )
    assert len(sorted_rows(connect.sql("select * from old"))) == 2


def test_nothing_to_write_makes_no_version(connect: Any, uri: str) -> None:
    save(connect.range(0), uri)
    assert tablefmt.open(uri).version == 0
    assert data_files(uri) == []
    save(connect.range(0), uri)
    assert tablefmt.open(uri).version == 0
    assert sorted_rows(load(connect, uri)) == []


def test_an_application_version_is_applied_once(connect: Any, uri: str) -> None:
    """CFL-7."""
    for _ in range(2):
        save(connect.range(3), uri, txnAppId="job", txnVersion="1")
    assert len(sorted_rows(load(connect, uri))) == 3
    assert tablefmt.open(uri).version == 1


def test_replacing_partitions(connect: Any, uri: str) -> None:
    rows = "select 1 as id, 'a' as p union all select 2, 'b' union all select 3, null"
    save(connect.sql(rows), uri, partitionBy="p")
    save(connect.sql("select 4 as id, 'b' as p"), uri, "overwrite", replaceWhere="p = 'b'")
    assert sorted_rows(load(connect, uri)) == [(1, "a"), (3, None), (4, "b")]
    save(connect.sql("select 5 as id, string(null) as p"), uri, "overwrite",
         partitionOverwriteMode="dynamic")  # fmt: skip
    assert sorted_rows(load(connect, uri)) == [(1, "a"), (4, "b"), (5, None)]
    before = everything(uri)
    with pytest.raises(ConstraintViolationError):
        save(connect.sql("select 4 as id, 'c' as p"), uri, "overwrite", replaceWhere="p = 'b'")
    assert everything(uri) == before


def test_times_without_a_zone_are_refused_where_the_zone_is_not_told(
    connect: Any, uri: str
) -> None:
    """SQL-4: `format` runs where the session's zone is not known; `write` asks the session."""
    new_year = "2020-01-01 00:00:00"
    days = "SELECT {0} AS id, TIMESTAMP '2019-12-31 22:00:00' AS c"
    save(connect.sql(days.format(1)), uri, partitionBy="c")
    for where in (f"c < '{new_year}'", f"c < TIMESTAMP '{new_year}'"):
        with pytest.raises(UnsupportedFeatureError, match="without a zone"):
            save(connect.sql(days.format(2)), uri, "overwrite", replaceWhere=where)
    where = f"c < '{new_year}'"
    tablefmt.spark.write(connect.sql(days.format(2)), uri, mode="overwrite", replaceWhere=where)
    assert tablefmt.open(uri).to_arrow()["id"].to_pylist() == [2]
    where = f"c < '{new_year}-05:00'"
    save(connect.sql(days.format(3)), uri, "overwrite", replaceWhere=where)
    assert tablefmt.open(uri).to_arrow()["id"].to_pylist() == [3]
    tablefmt.spark.open(connect, uri).delete(f"c < '{new_year}' AND upper(id) = '3'")
    assert tablefmt.open(uri).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("options", "kind", "word"),
    [
        ({"versionAsOf": "7"}, VersionNotFoundError, "7"),
        ({"versionAsOf": "x"}, VersionNotFoundError, "not the name of a tag"),
        ({"versionAsOf": "0", "timestampAsOf": "2024-01-01"}, InvalidRangeError, "both"),
        ({"timestampAsOf": "1999-01-01"}, VersionNotFoundError, "1999"),
        ({"readChangeFeed": "true"}, InvalidRangeError, "readChangeFeed"),
        ({"startingVersion": "0"}, InvalidRangeError, "startingVersion"),
        ({"readChangeFeed": "true", "startingVersion": "1"}, VersionNotFoundError, "version 1"),
        ({"colour": "red"}, UnsupportedFeatureError, "colour"),
    ],
)
def test_a_read_that_makes_no_sense_is_refused(
    connect: Any, uri: str, options: dict[str, str], kind: type[Exception], word: str
) -> None:
    """The TablefmtError itself, without a Java stack."""
    tablefmt.create(uri, "id BIGINT")
    with pytest.raises(kind, match=word) as caught:
        load(connect, uri, **options).collect()
    assert type(caught.value) is kind
    assert caught.value.__suppress_context__
    assert "\tat " not in str(caught.value)


def test_errors_have_their_attributes(connect: Any, uri: str) -> None:
    with pytest.raises(TableNotFoundError) as missing:
        load(connect, uri).collect()
    assert missing.value.uri == uri
    tablefmt.create(uri, "id BIGINT")
    with pytest.raises(VersionNotFoundError) as version:
        load(connect, uri, versionAsOf=9).collect()
    assert (version.value.requested, version.value.oldest, version.value.latest) == (
        "version 9",
        0,
        0,
    )
    with pytest.raises(TableNotFoundError):
        connect.sql(
            f"create or replace temporary view v using tablefmt options (path '{uri}/none')"
        ).collect()


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("query", "options", "kind", "names"),
    [
        ("select 1L as id, 1 as x", {}, SchemaMismatchError, ["x"]),
        ("select 'a' as id", {}, SchemaMismatchError, ["id"]),
        ("select 1 as p", {}, SchemaMismatchError, ["id"]),
        ("select 1L as id, 3000000000L as p", {}, SchemaMismatchError, ["p"]),
        ("select bigint(null) as id", {}, ConstraintViolationError, None),
        ("select 1L as id", {"partitionBy": "id"}, SchemaMismatchError, ["id"]),
        ("select 1L as id", {"overwriteSchema": "true"}, InvalidArgumentError, None),
        ("select 1L as id", {"colour": "red"}, UnsupportedFeatureError, None),
        ("select 1L as id", {"txnAppId": "x"}, InvalidArgumentError, None),
    ],
)
def test_a_write_that_does_not_fit_leaves_nothing(
    connect: Any,
    uri: str,
    query: str,
    options: dict[str, str],
    kind: type[Exception],
    names: list[str] | None,
) -> None:
    """DAT-2, DAT-3, F2."""
    tablefmt.create(uri, "id BIGINT NOT NULL, p INT")
    before = everything(uri)
    with pytest.raises(kind) as caught:
        save(connect.sql(query), uri, **options)
    assert type(caught.value) is kind
    if names is not None:
        assert caught.value.columns == names  # type: ignore[attr-defined]
    assert everything(uri) == before


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_modes_that_spark_refuses_name_our_function(connect: Any, uri: str, mode: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"tablefmt\.spark\.write"):
        save(connect.range(1), uri, mode)
    assert not tablefmt.exists(uri)


def test_what_spark_does_not_hand_on_is_refused_by_spark(connect: Any, uri: str) -> None:
    frame = connect.sql("select 1L as id, 2 as p")
    for writer in (frame.write.partitionBy("p"), frame.write.clusterBy("p")):
        with pytest.raises(Exception, match=r"(?i)partition|cluster"):
            writer.format("tablefmt").mode("append").save(uri)
    assert not tablefmt.exists(uri)


def test_a_session_that_is_not_registered_says_so(connect_address: str, uri: str) -> None:
    session = new_session(connect_address)
    try:
        with pytest.raises(UnsupportedFeatureError, match="register"):
            load(session, uri).collect()
    finally:
        session.stop()


def test_memory_is_refused(connect: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="memory://"):
        save(connect.range(1), "memory://nowhere")


def test_a_task_that_fails_leaves_no_version_and_no_file(connect: Any, uri: str) -> None:
    """F2: there is one task, so none still runs when Spark reports the failure."""
    save(connect.range(3), uri)
    before = everything(uri)
    frame = connect.range(0, 100, 1, 1).selectExpr("if(id = 99, raise_error('broken'), id) as id")
    with pytest.raises(Exception, match="broken"):
        save(frame, uri)
    assert everything(uri) == before
    with pytest.raises(Exception, match="broken"):
        save(frame, uri + "2")
    assert everything(uri + "2") == []


def test_tasks_beside_one_that_fails_leave_no_version_and_orphans_at_most(
    connect: Any, uri: str
) -> None:
    """F2."""
    save(connect.range(3), uri)
    before = everything(uri)
    frame = connect.range(0, 100, 1, 4).selectExpr("if(id = 99, raise_error('broken'), id) as id")
    for place, known in ((uri, before), (uri + "2", [])):
        with pytest.raises(Exception, match="broken"):
            save(frame, place)
        assert strays(place, known) == []
    assert sorted_rows(load(connect, uri)) == [(0,), (1,), (2,)]


def test_a_damaged_file_is_named(connect: Any, uri: str) -> None:
    """DAT-5."""
    save(connect.range(1000), uri)
    path = Path(data_files(uri)[0])
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    with pytest.raises(CorruptDataError) as caught:
        load(connect, uri).collect()
    assert path.name in caught.value.key


def test_a_store_that_refuses_is_a_rejection(connect: Any, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("in the way")
    with pytest.raises((CommitRejectedError, tablefmt.errors.StoreError)):
        save(connect.range(1), str(place / "table"))


def test_inserting_through_a_temporary_view(connect: Any, uri: str) -> None:
    """Columns match by name and by position, with Spark's own casts."""
    tablefmt.create(uri, "id BIGINT, p INT")
    connect.sql(f"create or replace temporary view t using tablefmt options (path '{uri}')")
    connect.sql("insert into t values (7, 1)").collect()
    connect.sql("insert into t (p, id) values (2, 8)").collect()
    assert sorted_rows(load(connect, uri)) == [(7, 1), (8, 2)]
    connect.sql("insert overwrite t values (9, 3)").collect()
    assert sorted_rows(load(connect, uri)) == [(9, 3)]


def test_a_table_of_the_catalog_is_refused_by_name(connect: Any, uri: str) -> None:
    """Spark would hand its options on at creation alone."""
    tablefmt.create(uri, "id BIGINT")
    with pytest.raises(UnsupportedFeatureError, match="TEMPORARY VIEW") as caught:
        connect.sql(f"create table t using tablefmt options (path '{uri}')").collect()
    assert caught.value.features == ["spark:catalog-table"]


def test_identity_columns(connect: Any, uri: str) -> None:
    """IDN-2, IDN-3: tasks of Connect claim their numbers, in DataFrame writes and statements."""
    column = "id BIGINT NOT NULL GENERATED ALWAYS AS IDENTITY (START WITH 7)"
    tablefmt.create(uri, f"{column}, v STRING")
    save(connect.range(0, 9, 1, 3).selectExpr("concat('a', id) AS v"), uri)
    table = tablefmt.spark.open(connect, uri)
    table.append(connect.range(2).selectExpr("concat('b', id) AS v"))
    table.update({"v": "upper(v)"}, "v = 'b1'")
    rows = sorted_rows(uri)
    assert len({number for number, _ in rows}) == len(rows) == 11
    assert {v for _, v in rows} == {*(f"a{n}" for n in range(9)), "b0", "B1"}
    assert min(rows)[0] == 7
    with pytest.raises(ConstraintViolationError, match="GENERATED ALWAYS AS IDENTITY"):
        table.append(connect.range(1).selectExpr("id", "'x' AS v"))
    assert sorted_rows(uri) == rows
