"""A Spark session that stops is forgotten, and the next one in the process works like the first."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.spark.pyspark_objects import SessionCache


class Context:
    """The members of PySpark's SparkContext that a cache uses."""

    def __init__(self) -> None:
        self._jsc: Any = object()

    def stop(self) -> None:
        self._jsc = None


class Session:
    """The members of PySpark's SparkSession that a cache uses."""

    def __init__(self, context: Context, name: str) -> None:
        self.sparkContext = context
        self._jsparkSession = self
        self.name = name

    def sessionUUID(self) -> str:
        return self.name


def _session(context: Context, name: str) -> Any:
    return Session(context, name)


def test_values_are_made_once_a_session_and_the_last_used_stay() -> None:
    context, made = Context(), []
    one, two = Session(context, "one"), Session(context, "two")
    cache: SessionCache[str] = SessionCache(2)

    def get(spark: Any, key: str) -> str:
        def make() -> str:
            made.append(f"{spark.name} {key}")
            return made[-1]

        return cache.get(spark, key, make)

    assert [get(one, "a"), get(two, "a"), get(one, "a")] == ["one a", "two a", "one a"]
    assert made == ["one a", "two a"]
    assert get(one, "b") == "one b"
    assert len(cache) == 2
    # The less recently used one was removed.
    assert [get(one, "a"), get(two, "a")] == ["one a", "two a"]
    assert made == ["one a", "two a", "one b", "two a"]


@pytest.mark.slow
def test_a_context_that_stops_or_goes_takes_its_values_along() -> None:
    cache: SessionCache[str] = SessionCache(9)
    contexts = [Context() for _ in range(3)]
    for at, context in enumerate(contexts):
        assert cache.get(_session(context, f"s{at}"), "k", lambda at=at: f"v{at}") == f"v{at}"
    assert len(cache) == 3
    contexts[0].stop()
    assert len(cache) == 2
    del context, contexts[1]
    gc.collect()
    assert len(cache) == 1
    last = _session(contexts[1], "s2")
    assert cache.get(last, "k", lambda: "anew") == "v2"
    cache.clear()
    assert cache.get(last, "k", lambda: "anew") == "anew"


PROGRAM = """
import gc, sys
import tablefmt, tablefmt.spark
from pyspark import RDD
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.spark.backends.native import native_relation
from tablefmt.spark.entry import java_arguments
from tablefmt.spark.jvm import java_classes
from tablefmt.store.location import open_store

folder = sys.argv[1]
CACHES = (native_relation._relations, java_classes._ruled, java_arguments._sessions)


def use(name):
    spark = tablefmt.spark.session(
        name, master="local[1]", **{"spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": folder + "/warehouse"})
    spark.sparkContext.setLogLevel("OFF")
    tablefmt.spark.register(spark)
    uri = f"{folder}/{name}"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql(f"INSERT INTO {name} SELECT id, 0 FROM range(4)")
    spark.sql(f"UPDATE {name} SET v = id * 10 WHERE id > 1")
    tablefmt.spark.open(spark, uri).delete("id = 0")
    other = spark.newSession()
    tablefmt.spark.register(other)
    assert choose(other, open_store(uri)).name == "native"
    frames = [spark.table(name), spark.read.format("tablefmt").load(uri),
              tablefmt.spark.read(other, uri), tablefmt.spark.read(spark, folder + "/first")]
    for frame in frames:
        rows = sorted(tuple(row) for row in frame.collect())
        assert rows == [(1, 0), (2, 20), (3, 30)], rows
    assert all(len(each) for each in CACHES), [len(each) for each in CACHES]
    return spark


first = use("first")
first.stop()
assert [len(each) for each in CACHES[:2]] == [0, 0], "somebody still has the stopped session"
second = use("second")
assert second is not first
del first
second.stop()
del second
# PySpark itself keeps the session object that was made last, for RDD.toDF.
del RDD.toDF
gc.collect()
assert [len(each) for each in CACHES] == [0, 0, 0], [len(each) for each in CACHES]
assert not java_classes._found or len(java_classes._found) == 1, "one JVM served both"
"""


@pytest.mark.soak
def test_one_session_after_another_in_one_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    tables = [tablefmt.open(f"{tmp_path}/{name}") for name in ("first", "second")]
    assert [table.verify().ok for table in tables] == [True, True]
