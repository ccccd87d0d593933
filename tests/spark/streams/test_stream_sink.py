"""`writeStream.format("tablefmt")`: each batch is one commit, and is there once."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentTransactionException,
    ConstraintViolationError,
    IdempotenceError,
    InvalidRangeError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.operations.append import append_files
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import commit_staged
from tablefmt.spark.entry import dataframe_io, stream_verbs
from tablefmt.spark.runtime.spark_jobs import content_of
from tablefmt.spark.statements import execution
from tablefmt.store.local_store import LocalStore
from tests.races import race
from tests.spark.conftest import UseBackend
from tests.spark.looking import assert_no_other_files, everything
from tests.spark.streams.queries import Feed, ended
from tests.system.transactions.world import Counting
from tests.tables import sorted_rows


@pytest.fixture
def feed(catalog: None, spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


def entries(uri: str) -> list[tuple[str, int | None, int]]:
    """Return operation, batch and number of files of every version but the first."""
    found = []
    for stored in tablefmt.open(uri).context.view.entries_after(0):
        entry = stored.entry
        batch = None if entry.application is None else entry.application.version
        found.append((entry.operation.name, batch, 0 if entry.add is None else len(entry.add)))
    return found


def application_ids(uri: str) -> list[str]:
    return sorted(tablefmt.open(uri).context.view.head.applications)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "arrow"])
def test_every_batch_is_one_commit_under_the_id_of_the_query(
    feed: Feed, uri: str, use_backend: UseBackend, backend: str
) -> None:
    """STR-10, STR-11, STR-13: the first batch creates the table.

    A batch without rows records its number.
    """
    use_backend(backend)
    feed.put(1, 2, 3)
    query = feed.run(uri, partitionBy="p")
    assert tablefmt.open(uri).partition_by == ["p"]
    feed.put()
    feed.put(4, 5)
    query = feed.run(uri, partitionBy="P")
    assert sorted_rows(uri) == feed.rows
    assert [(name, batch) for name, batch, _ in entries(uri)] == [("WRITE", i) for i in range(3)]
    assert [files > 0 for *_, files in entries(uri)] == [True, False, True]
    assert application_ids(uri) == [query.id]


def test_a_batch_that_spark_repeats_is_there_once(feed: Feed, uri: str) -> None:
    """STR-11: the process ended between the commit of the table and Spark's own note."""
    feed.put(1, 2)
    feed.put(3)
    feed.run(uri)
    before = everything(uri)
    feed.forget(1)
    feed.run(uri)
    assert everything(uri) == before
    feed.put(4)
    feed.run(uri)
    assert sorted_rows(uri) == feed.rows
    assert [batch for _, batch, _ in entries(uri)] == [0, 1, 2]


def test_complete_mode_gives_the_whole_table_in_one_commit(feed: Feed, uri: str) -> None:
    """STR-13: the query has state, and a repeated batch finds it unchanged."""

    def count() -> Any:
        return feed.run(uri, mode="complete", frame=feed.batches().groupBy("p").count())

    feed.put(1, 2, 3)
    count()
    assert sorted_rows(uri) == [("a", 1), ("b", 2)]
    feed.put(4, 5)
    feed.put(6)
    count()
    assert sorted_rows(uri) == [("a", 3), ("b", 3)]
    assert [name for name, *_ in entries(uri)] == ["WRITE", "OVERWRITE", "OVERWRITE"]
    before = everything(uri)
    feed.forget(2)
    count()
    assert everything(uri) == before
    feed.put(7)
    count()
    assert sorted_rows(uri) == [("a", 3), ("b", 4)]


def test_complete_mode_is_the_whole_table_whatever_the_session_overwrites(
    feed: Feed, spark: Any, uri: str
) -> None:
    feed.put(1, 2)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for _ in range(2):
            counts = feed.batches().groupBy("p").count().where("p = 'b' OR count < 2")
            feed.run(uri, mode="complete", frame=counts, partitionBy="p")
            feed.put(4)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    # `a` has two rows now, and is left out.
    assert sorted_rows(uri) == [("b", 1)]


def test_what_cannot_be_is_refused_before_the_query_runs(
    feed: Feed, spark: Any, uri: str, tmp_path: Path
) -> None:
    """STR-10."""
    feed.put(1)
    tablefmt.create(uri, "id BIGINT, p STRING", partition_by=["p"])
    before = everything(uri)
    counts = feed.batches().groupBy("p").count()
    for given, error, words in (
        ({"mode": "update", "frame": counts}, UnsupportedFeatureError, "foreachBatch.*MERGE"),
        ({"replaceWhere": "id = 1"}, InvalidRangeError, "append replaces nothing"),
        ({"partitionOverwriteMode": "dynamic"}, InvalidRangeError, "append replaces nothing"),
        ({"overwriteSchema": "true"}, InvalidRangeError, "append mode"),
        ({"mode": "complete", "frame": counts, "replaceWhere": "id = 1"}, InvalidRangeError, "who"),
        ({"txnVersion": "3"}, InvalidRangeError, "number of the batch"),
        ({"txn_version": "3"}, InvalidRangeError, "number of the batch"),
        ({"mergeSchema": "maybe"}, InvalidRangeError, "true or false"),
        ({"mergeSchem": "true"}, UnsupportedFeatureError, "no option 'mergeSchem'"),
        ({"partitionBy": "id"}, SchemaMismatchError, "partitioned by 'p'"),
    ):
        with pytest.raises(error, match=words):
            feed.run(uri, **given)
    with pytest.raises(UnsupportedFeatureError, match="clusterBy"):
        ended(lambda: feed.writer().clusterBy("id").start(uri))
    with pytest.raises(InvalidRangeError, match="path is missing"):
        ended(lambda: feed.writer().start())
    with pytest.raises(UnsupportedFeatureError, match="memory://"):
        feed.run("memory://stream")
    assert spark.streams.active == []
    assert everything(uri) == before


def test_columns_are_those_of_a_write(feed: Feed, uri: str) -> None:
    """STR-15: misfits leave nothing; mergeSchema and overwriteSchema do what they say."""
    feed.put(1, 2)
    feed.run(uri)
    feed.put(3)
    more = feed.batches().selectExpr("id", "p", "id * 2 AS q")
    before = everything(uri)
    with pytest.raises(SchemaMismatchError, match="'q'"):
        feed.run(uri, frame=more)
    assert everything(uri) == before
    feed.run(uri, frame=more, mergeSchema="true")
    assert sorted_rows(uri)[2] == (3, "b", 6)
    feed.put(4)
    with pytest.raises(SchemaMismatchError, match="`id` is of type"):
        feed.run(uri, frame=feed.batches().selectExpr("array(id) AS id", "p"))
    tablefmt.open(uri).alter.add_constraint("small", "id < 5")
    feed.run(uri)
    feed.put(5)
    with pytest.raises(ConstraintViolationError, match="small"):
        feed.run(uri)
    assert [row[0] for row in sorted_rows(uri)] == [1, 2, 3, 4]


def test_complete_mode_may_give_the_table_other_columns(
    feed: Feed, uri: str, tmp_path: Path
) -> None:
    feed.put(1, 2)
    feed.run(uri)
    other = Feed(feed.spark, tmp_path / "other")
    other.put(1, 3, 5)
    counts = other.batches().groupBy("p").count()
    with pytest.raises(SchemaMismatchError):
        other.run(uri, mode="complete", frame=counts)
    other.run(uri, mode="complete", frame=counts, overwriteSchema="true")
    assert sorted_rows(uri) == [("b", 3)]


def test_another_table_in_the_place_is_an_error(feed: Feed, uri: str) -> None:
    """STR-14: otherwise rows of earlier batches would be missing without notice."""
    feed.put(1)
    feed.run(uri)
    feed.put(2)
    shutil.rmtree(uri)
    with pytest.raises(TableNotFoundError, match="batch 1 of a stream"):
        feed.run(uri)
    assert not Path(uri).exists()
    tablefmt.create(uri, "id BIGINT, p STRING")
    with pytest.raises(TableReplacedError, match="has no batch of this query, but batch 1"):
        feed.run(uri)
    # A user can declare the table as filled by the query.
    table = tablefmt.open(uri)
    query = json.loads((feed.checkpoint / "metadata").read_text())["id"]
    table.append(table.to_arrow(), application=(query, 0))
    feed.run(uri)
    assert sorted_rows(uri) == [(2, "a")]


def test_a_table_that_is_made_anew_under_a_running_query_is_an_error(feed: Feed, uri: str) -> None:
    """STR-14: the new table's log has the earlier batches, but its id differs."""
    feed.put(1)
    query = feed.writer().trigger(processingTime="0 seconds").start(uri)
    try:
        query.processAllAvailable()
        shutil.rmtree(uri)
        table = tablefmt.create(uri, "id BIGINT, p STRING")
        table.append(table.to_arrow(), application=(query.id, 0))
        feed.put(2)
        with pytest.raises(TableReplacedError, match="replaced after the query began"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted_rows(uri) == []


def test_a_given_id_takes_the_place_of_the_querys_own(feed: Feed, uri: str, tmp_path: Path) -> None:
    """STR-11, STR-12: a second checkpoint under the same id is the same stream: its batch 0 is
    there, and has to be the same."""
    feed.put(1, 2)
    feed.run(uri, txnAppId="orders", userMetadata="by stream")
    assert application_ids(uri) == ["orders"]
    other = Feed(feed.spark, tmp_path / "other")
    other.put(8)
    with pytest.raises(IdempotenceError, match="Start with a new checkpoint and a new txnAppId"):
        other.run(uri, txnAppId="orders")
    shutil.rmtree(feed.checkpoint)
    feed.put(9)
    feed.run(uri, txn_app_id="orders")
    assert sorted_rows(uri) == feed.rows
    assert [batch for _, batch, _ in entries(uri)] == [0, 1]


def test_two_queries_into_one_table_do_not_meet(feed: Feed, uri: str, tmp_path: Path) -> None:
    other = Feed(feed.spark, tmp_path / "other")
    feed.put(1)
    other.put(2)
    feed.run(uri)
    other.run(uri)
    assert sorted_rows(uri) == [(1, "b"), (2, "a")]
    assert len(application_ids(uri)) == 2


def test_what_a_query_reads_of_its_own_table_is_as_of_its_start(
    feed: Feed, spark: Any, uri: str
) -> None:
    """STR-13: a constant, so that a batch is in no conflict with the one before it."""
    feed.put(1, 2)
    feed.run(uri)
    known = spark.read.format("tablefmt").load(uri).selectExpr("id AS known")
    feed.put(3, 1)
    feed.put(13)
    told = feed.batches().join(known, functions.expr("id = known"), "left")
    feed.run(uri, frame=told.selectExpr("id + 10 AS id", "IF(known IS NULL, 'n', 'k') AS p"))
    assert sorted_rows(uri) == [(1, "b"), (2, "a"), (11, "k"), (13, "n"), (23, "n")]


def batch_of(spark: Any, uri: str, run: str, number: int, *ids: int, mode: str = "append") -> Any:
    """Return a function that writes a batch in a run of the query `q`."""
    frame = spark.createDataFrame([(i,) for i in ids], "id long")
    options = json.dumps({"path": uri})
    write = stream_verbs.SINK_VERBS["sink_batch"]
    arguments = mode, options, "[]", frame._jdf, number, "q", run, None
    return lambda: write(spark._jsparkSession, *arguments)


@pytest.mark.share(2)
@pytest.mark.parametrize("first", [True, False], ids=["no table", "a table"])
def test_of_two_runs_of_one_query_one_is_refused(spark: Any, uri: str, first: bool) -> None:
    """STR-12: the second run of a race is refused for any batch.

    A run that finds the batch done is not.
    """
    number = 0
    if not first:
        batch_of(spark, uri, "before", 0, 0)()
        number = 1
    one, two = race(batch_of(spark, uri, "one", number, 1), batch_of(spark, uri, "two", number, 2))
    assert one.error is None
    assert isinstance(two.error, ConcurrentTransactionException)
    assert two.error.winner_version == (1 if first else 2)
    before = everything(uri)
    batch_of(spark, uri, "three", number, 3)()
    assert everything(uri) == before
    assert sorted_rows(uri) == ([(1,)] if first else [(0,), (1,)])


def test_a_first_batch_that_another_run_is_ahead_of_is_an_error(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STR-14: it wrote batches 0 and 1 after this run found no table."""
    write_first = dataframe_io.write_first

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(stream_verbs, "write_first", write_first)
        batch_of(spark, uri, "one", 0, 1)()
        batch_of(spark, uri, "one", 1, 2)()
        return write_first(*given, **named)

    monkeypatch.setattr(stream_verbs, "write_first", late)
    with pytest.raises(ConcurrentTransactionException, match="behind another run") as caught:
        batch_of(spark, uri, "two", 0, 3)()
    assert caught.value.winner_version == 2
    assert sorted_rows(uri) == [(1,), (2,)]
    assert_no_other_files(uri)


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_what_a_batch_asks_of_the_log(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """STR-13: one probe for the newest version, and the commit."""
    counting = Counting(LocalStore(uri))
    monkeypatch.setattr(stream_verbs, "open_store", lambda *_: counting)
    execution._views.clear()
    for number in range(4):
        batch_of(spark, uri, "one", number, number, mode=mode)()
        seen = [each for each in counting.requests if each[1].startswith("_log/")]
        counting.reset()
    newest, following = entry_key(3), entry_key(4)
    assert seen == [
        ("get", newest), ("get", following), ("found", newest), ("put_if_absent", following)
    ]  # fmt: skip


def put_back(feed: Feed, saved: Path) -> None:
    """The checkpoint as it was when it was saved."""
    shutil.rmtree(feed.checkpoint)
    shutil.copytree(saved, feed.checkpoint)


FORMS = ["sink", "sink by txnAppId", "foreachBatch", "foreachBatch by MERGE"]


def run_as(form: str, feed: Feed, uri: str, frame: Any = None) -> None:
    """Run the query in one of the forms until all that is new was written."""
    if form.startswith("sink"):
        feed.run(uri, frame=frame, **({"txnAppId": "app"} if "txnAppId" in form else {}))
        return

    def each(batch: Any, number: int) -> None:
        if "MERGE" in form and tablefmt.exists(uri):
            merge = tablefmt.spark.open(feed.spark, uri).merge(batch, "t.id = s.id")
            merge.when_not_matched_insert_all().execute(application=("app", number))
            return
        writer = batch.write.format("tablefmt").mode("append")
        writer.options(txnAppId="app", txnVersion=number).save(uri)

    stream = feed.batches() if frame is None else frame
    writer = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
    ended(lambda: writer.option("checkpointLocation", str(feed.checkpoint)).start())


@pytest.mark.share(4)
@pytest.mark.parametrize("form", FORMS)
def test_another_batch_under_a_used_number_is_refused(
    feed: Feed, uri: str, tmp_path: Path, form: str
) -> None:
    """STR-12, CFL-7: IdempotenceError. A checkpoint is put back; the source has other files."""
    feed.put(1, 2)
    run_as(form, feed, uri)
    shutil.copytree(feed.checkpoint, tmp_path / "saved")
    feed.put(3)
    run_as(form, feed, uri)
    # A repeated batch is another plan of the same rows.
    put_back(feed, tmp_path / "saved")
    run_as(form, feed, uri)
    assert sorted_rows(uri) == feed.rows
    put_back(feed, tmp_path / "saved")
    next(iter(feed.source.glob("00001*"))).unlink()
    feed.put(4)
    with pytest.raises(Exception, match="with different content"):
        run_as(form, feed, uri)
    assert sorted_rows(uri) == [(1, "b"), (2, "a"), (3, "b")]
    assert_no_other_files(uri)


@pytest.mark.share(4)
@pytest.mark.parametrize("form", FORMS)
def test_a_batch_that_is_repeated_is_applied_already(feed: Feed, uri: str, form: str) -> None:
    """STR-11, STR-12: Spark was killed between our commit and its note; the source has grown."""
    feed.put(1, 2)
    run_as(form, feed, uri)
    feed.put(3)
    run_as(form, feed, uri)
    feed.forget(1)
    feed.put(4)
    run_as(form, feed, uri)
    assert sorted_rows(uri) == feed.rows
    assert [batch for _, batch, _ in entries(uri)] == [0, 1, 2]


def test_a_source_of_ours_says_what_a_batch_holds(
    feed: Feed, spark: Any, uri: str, tmp_path: Path
) -> None:
    """STR-12: offsets of a table as the source, and a checkpoint that was put back."""
    source = str(tmp_path / "table")
    tablefmt.write([{"id": 1, "p": "x"}], source)

    def frame() -> Any:
        return spark.readStream.format("tablefmt").load(source)

    feed.run(uri, frame=frame())
    shutil.copytree(feed.checkpoint, tmp_path / "saved")
    tablefmt.open(source).append([{"id": 2, "p": "x"}])
    feed.run(uri, frame=frame())
    put_back(feed, tmp_path / "saved")
    tablefmt.open(source).append([{"id": 3, "p": "x"}])
    with pytest.raises(IdempotenceError, match="with different content"):
        feed.run(uri, frame=frame())
    assert sorted_rows(uri) == [(1, "x"), (2, "x")]


def test_a_batch_that_spark_does_not_tell_of_is_logged_once(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """STR-12: a made-up id, and a query that does not run; no error of Spark's."""
    unknown = str(uuid.uuid4())
    for number in range(2):
        assert content_of(spark, "no id", number) is content_of(spark, unknown, number) is None
    told = [record for record in caplog.records if unknown in record.getMessage()]
    assert [record.levelname for record in told] == ["WARNING"]


def test_an_older_entry_without_a_content_counts_as_equal(spark: Any, uri: str) -> None:
    """STR-12, CFL-7: its writer noted the run alone as the digest, or nothing."""
    tablefmt.write([{"id": 1}], uri)
    table = tablefmt.open(uri)
    context = table.context
    for number, digest in enumerate([None, "run:before"]):
        options = CommitOptions(application=("q", number))
        staged = append_files(
            context.environment.nonce(), None, table.refresh().context.view.head.metadata,
            read_version=table.version,
        )  # fmt: skip
        commit_staged(context, staged, options, digest)
        before = everything(uri)
        batch_of(spark, uri, "after", number, 7)()
        assert everything(uri) == before
