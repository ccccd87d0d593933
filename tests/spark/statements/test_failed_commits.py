"""Files left by a statement of Spark whose commit fails: none, or all if the outcome is unknown.

CMT-1: files of a commit that certainly is not in the table are removed; files of a commit that may
be in the table stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.commit import driver
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentModificationException,
    StoreError,
)
from tablefmt.operations.create import create_as
from tablefmt.spark.entry.dataframe_io import overwrite_rows
from tablefmt.spark.statements import execution
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import NoAnswer
from tests.spark.looking import everything

Verb = Callable[[Any, str], Any]
"""A session, and a table's place."""

DEADLINE = 1.0


def own(spark: Any, uri: str) -> Any:
    """Rows of the table itself."""
    return tablefmt.spark.read(spark, uri).selectExpr("k", "v + 100 AS v", "p")


def other(spark: Any) -> Any:
    return spark.createDataFrame([(1, 7, "a"), (9, 9, "c")], "k BIGINT, v BIGINT, p STRING")


def merged(spark: Any, uri: str, source: Any) -> Any:
    table = tablefmt.spark.open(spark, uri)
    builder = table.merge(source, "t.k = s.k", deadline=DEADLINE)
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def written(mode: str, rows: Callable[[Any, str], Any], **options: Any) -> Verb:
    def verb(spark: Any, uri: str) -> Any:
        given = {"deadline": DEADLINE, **options}
        return tablefmt.spark.write(rows(spark, uri), uri, mode=mode, **given)  # type: ignore[arg-type]

    return verb


READING: dict[str, Verb] = {
    "append": written("append", own),
    "overwrite": written("overwrite", own),
    "dynamic": written("overwrite", own, partitionOverwriteMode="dynamic"),
    "replaceWhere": written("overwrite", lambda s, u: own(s, u).where("p = 'a'"),
                            replaceWhere="p = 'a'"),
    "replaceWhere by rows": written("overwrite", lambda s, u: own(s, u), replaceWhere="v >= 2"),
    "MERGE": lambda spark, uri: merged(spark, uri, own(spark, uri)),
    "UPDATE": lambda spark, uri: spark.sql(
        f"UPDATE tablefmt.`{uri}` SET v = v + 1 WHERE k IN (SELECT k FROM tablefmt.`{uri}`)"
    ),
}  # fmt: skip
"""Statements that read the table which they write."""

BLIND: dict[str, Verb] = {
    "append": written("append", lambda s, _: other(s)),
    "overwrite": written("overwrite", lambda s, _: other(s)),
    "replaceWhere by rows": written("overwrite", lambda s, _: other(s), replaceWhere="v >= 2"),
    "MERGE": lambda spark, uri: merged(spark, uri, other(spark)),
    "UPDATE": lambda spark, uri: tablefmt.spark.open(spark, uri).update(
        {"v": "v + 1"}, "k = 1", deadline=DEADLINE
    ),
    "DELETE": lambda spark, uri: tablefmt.spark.open(spark, uri).delete(
        "k = 1", deadline=DEADLINE
    ),
    "compact": lambda spark, uri: tablefmt.spark.open(spark, uri).compact(deadline=DEADLINE),
    "REPLACE AS": lambda spark, uri: spark.sql(
        f"CREATE OR REPLACE TABLE tablefmt.`{uri}` USING tablefmt AS SELECT 1 AS one"
    ),
    "stream": lambda spark, uri: overwrite_rows(*_batch(spark, uri), refresh=False),
}  # fmt: skip


def _batch(spark: Any, uri: str) -> tuple[Any, ...]:
    from tablefmt.spark.spark_options import parse_options
    from tablefmt.store.location import open_store

    options = parse_options({"deadline": DEADLINE, "txnAppId": "q", "txnVersion": "1"})
    return execution.open_context(open_store(uri)), other(spark), options


@pytest.fixture
def there(spark: Any, uri: str) -> Iterator[str]:
    """A partitioned table of several small files."""
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, "k BIGINT, v BIGINT, p STRING", partition_by=["p"])
    for at in range(4):
        table.append({"k": [at, at + 10], "v": [at, at], "p": ["a", "b"]})
    execution._views.clear()
    yield uri
    execution._views.clear()


@pytest.mark.share(5)
@pytest.mark.parametrize("name", READING)
def test_a_statement_with_unknown_reads_leaves_no_file(
    spark: Any, there: str, backend: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """CFL-22: the reads of its source are computed after its files are written."""

    def fails(*_: object) -> None:
        raise StoreError("the base cannot be read")

    before = everything(there)
    monkeypatch.setattr("tablefmt.session.input_rows._scope_of_reads", fails)
    with pytest.raises((StoreError, CommitRejectedError), match="the base cannot be read"):
        READING[name](spark, there)
    assert everything(there) == before


@pytest.mark.share(6)
@pytest.mark.parametrize("name", BLIND)
def test_a_statement_that_loses_a_race_leaves_nothing(
    spark: Any, there: str, backend: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """CMT-1: a conflict is certain."""
    commit, after = driver.commit, []

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr("tablefmt.session.table_context.commit", commit)
        tablefmt.open(there).alter.set_properties({"deleteMode": "copy-on-write"})
        after.extend(path for path in everything(there) if "/_log/" in path)
        return commit(*given)

    before = [path for path in everything(there) if "/_log/" not in path]
    monkeypatch.setattr("tablefmt.session.table_context.commit", overtaken)
    with pytest.raises(ConcurrentModificationException):
        BLIND[name](spark, there)
    assert everything(there) == sorted([*before, *after])


@pytest.mark.share(8)
@pytest.mark.parametrize("name", [name for name in BLIND if name != "REPLACE AS"])
def test_a_statement_whose_outcome_is_unknown_keeps_all(
    spark: Any, there: str, backend: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """CMT-1: its entry may still arrive, and then its files have to be there."""
    put, sent = LocalStore.put_if_absent, []

    def silent(store: LocalStore, key: str, body: bytes) -> Any:
        if not key.startswith("_log/"):
            return put(store, key, body)
        sent.append((store, key, body))
        return NoAnswer("nothing came back")

    monkeypatch.setattr(LocalStore, "put_if_absent", silent)
    with pytest.raises(CommitUnknownError) as caught:
        BLIND[name](spark, there)
    monkeypatch.undo()
    put(*sent[-1])
    table = tablefmt.open(there)
    assert table.version == caught.value.version
    assert table.verify().ok


def test_a_first_write_that_another_has_overtaken_leaves_nothing(
    spark: Any, uri: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CREATE TABLE AS: the files come before the table."""
    create = create_as

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr("tablefmt.operations.create.create_as", create)
        tablefmt.create(uri, "other INT")
        return create(*given, **named)

    monkeypatch.setattr("tablefmt.operations.create.create_as", late)
    with pytest.raises((tablefmt.errors.TableExistsError, ConcurrentModificationException)):
        tablefmt.spark.write(other(spark), uri)
    assert [path for path in everything(uri) if "/data/" in path] == []
