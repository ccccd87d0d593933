"""STR-10 .. STR-15: the sink where there is no JVM at hand, as Spark calls it, without Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import tablefmt
from tablefmt.commit.environment import Environment
from tablefmt.errors import (
    CommitRejectedError,
    ConcurrentTransactionException,
    MetadataChangedException,
    StoreError,
)
from tablefmt.spark.entry import python_writer
from tablefmt.spark.entry.python_writer import TablefmtStreamWriter, make_stream_writer, make_writer
from tests.spark.looking import assert_no_other_files, data_files
from tests.tables import rows_by_id

COLUMNS = StructType([StructField("id", LongType()), StructField("told", StringType())])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def sent(value: Any) -> Any:
    """Return the value after a transfer to another process."""
    return pickle.loads(pickle.dumps(value))


class Batch:
    """One batch: the tasks are done, and nothing is committed."""

    def __init__(self, uri: str, *tasks: list[int], **options: str) -> None:
        self._options = {"path": uri, "txnAppId": "q", **options}
        writer = self._writer()
        self.messages = [pickle.dumps(sent(writer).write(iter([self._rows(ids)]))) for ids in tasks]

    def _writer(self) -> TablefmtStreamWriter:
        return make_stream_writer(dict(self._options), COLUMNS, overwrite=False)

    @staticmethod
    def _rows(ids: list[int]) -> pa.RecordBatch:
        columns = [pa.array(ids, pa.int64()), pa.array([str(i) for i in ids])]
        return pa.RecordBatch.from_arrays(columns, names=COLUMNS.names)

    def commit(self, number: int) -> None:
        """Commit as another writer, which does not know the first."""
        self._writer().commit([pickle.loads(each) for each in self.messages], number)


def of(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "told": str(i)} for i in ids]


def test_what_a_task_says_has_nothing_that_all_have(uri: str) -> None:
    """STR-13: the message has neither the location and options of the table nor its columns."""
    Batch(uri, [1]).commit(0)
    batch = Batch(uri, [2], [3])
    for message in batch.messages:
        fields = vars(pickle.loads(message))
        assert sorted(fields) == ["began", "body", "read_version", "table", "transaction"]
        assert fields["read_version"] == 1
        assert fields["table"] == tablefmt.open(uri).id
        for word in (uri, "told", "Store", "Metadata", "credentials"):
            assert word.encode() not in message
    batch.commit(1)
    assert rows_by_id(uri) == of(1, 2, 3)
    assert_no_other_files(uri)


def test_what_came_between_the_tasks_and_the_commit_is_judged(uri: str) -> None:
    """STR-13, STR-15: the batch has the version at which its tasks began."""
    tablefmt.create(uri, "id BIGINT")
    table = tablefmt.open(uri)
    batch = Batch(uri, [1], mergeSchema="true")
    table.append({"id": [7]})
    batch.commit(0)
    assert table.refresh().schema.names == ["id", "told"]
    assert rows_by_id(uri) == [{"id": 1, "told": "1"}, {"id": 7, "told": None}]
    batch = Batch(uri, [2])
    # Another column of the same name.
    table.alter.drop_column("told")
    table.alter.add_column("told", "STRING")
    with pytest.raises(MetadataChangedException):
        batch.commit(1)
    assert rows_by_id(uri) == [{"id": 1, "told": None}, {"id": 7, "told": None}]
    assert_no_other_files(uri)


def test_a_first_batch_goes_into_the_table_that_was_made_meanwhile(uri: str) -> None:
    """STR-12: the table was created by a writer that is no other run of this query."""
    batch = Batch(uri, [1])
    tablefmt.create(uri, "id BIGINT, told STRING").append({"id": [7], "told": ["7"]})
    batch.commit(0)
    assert rows_by_id(uri) == of(1, 7)
    assert_no_other_files(uri)


def test_a_first_batch_that_another_run_is_ahead_of_is_an_error(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STR-14: the other run may commit between the last probe and the commit."""
    batch, ahead = Batch(uri, [1]), Batch(uri, [2])
    commit_first = python_writer.commit_first  # type: ignore[attr-defined]

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(python_writer, "commit_first", commit_first)
        ahead.commit(0)
        Batch(uri, [3]).commit(1)
        return commit_first(*given, **named)

    monkeypatch.setattr(python_writer, "commit_first", late)
    with pytest.raises(ConcurrentTransactionException, match="behind another run"):
        batch.commit(0)
    with pytest.raises(ConcurrentTransactionException, match="behind another run"):
        Batch(uri, [4]).commit(0)
    assert rows_by_id(uri) == of(2, 3)
    assert_no_other_files(uri)


def test_a_batch_that_is_repeated_is_there_once(uri: str) -> None:
    """STR-11: the files of the second time are removed."""
    for _ in range(2):
        Batch(uri, [1], [2]).commit(0)
    Batch(uri).commit(1)
    Batch(uri, [3]).commit(2)
    assert rows_by_id(uri) == of(1, 2, 3)
    assert tablefmt.open(uri).version == 3
    assert_no_other_files(uri)


def test_a_job_that_failed_leaves_what_vacuum_finds_at_most(uri: str) -> None:
    Batch(uri, [1]).commit(0)
    batch = Batch(uri, [2])
    writer = batch._writer()
    writer.abort([*map(pickle.loads, batch.messages), None], 1)
    assert_no_other_files(uri)
    assert python_writer.BatchFiles is type(pickle.loads(batch.messages[0]))


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_whose_tasks_took_too_long_is_refused(
    uri: str, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """RET-6: a vacuum may have taken its files. The commit is another process's than the start."""
    if not first:
        Batch(uri, [1]).commit(0)
    began = Environment.moment
    with monkeypatch.context() as patch:
        patch.setattr(
            Environment,
            "moment",
            lambda *given: replace(
                began(*given), wall_us=began(*given).wall_us - 10**6 * 86_400 * 9
            ),
        )
        batch = Batch(uri, [2])
    with pytest.raises(CommitRejectedError, match="its files"):
        batch.commit(0 if first else 1)
    assert_no_other_files(uri)
    assert rows_by_id(uri) == ([] if first else of(1))


def test_a_table_that_cannot_be_opened_at_the_commit_keeps_no_files(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMT-1: no log request was sent, so the commit is certainly rejected."""

    def fails(*_: object) -> None:
        raise StoreError("the disk is away")

    tablefmt.create(uri, "id BIGINT, told STRING")
    writer = make_writer({"path": uri}, COLUMNS, overwrite=False)
    message = sent(writer.write(iter([Batch._rows([1])])))
    assert len(data_files(uri)) == 1
    monkeypatch.setattr(python_writer, "open_context", fails)
    with pytest.raises(StoreError, match="the disk is away"):
        sent(writer).commit([message])
    assert data_files(uri) == []
