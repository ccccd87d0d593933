"""Every kind of call in threads that Spark does not know, and in sessions side by side."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError

Rows = list[tuple[Any, ...]]
START: Rows = [(1, "a", 10), (2, "b", 20)]
COLUMNS = "id BIGINT, p STRING, n INT"


def rows(path: str) -> Rows:
    """Return the rows of a table, by Arrow."""
    found = tablefmt.open(path).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


class Place:
    """A table known to a session, and frames of that session."""

    def __init__(self, spark: Any, folder: Path, name: str) -> None:
        self.spark, self.name, self.path = spark, name, str(folder / name)
        spark.sql(
            f"CREATE TABLE {name} ({COLUMNS}) USING tablefmt OPTIONS (path '{self.path}') "
            "PARTITIONED BY (p)"
        )
        columns = dict(zip(("id", "p", "n"), zip(*START, strict=True), strict=True))
        tablefmt.open(self.path).append(pa.table(columns))

    def frame(self, *given: tuple[Any, ...]) -> Any:
        return self.spark.createDataFrame(list(given) or [(3, "a", 30)], COLUMNS)


ADDED = [*START, (3, "a", 30)]
ONLY: Rows = [(3, "a", 30)]
DYNAMIC: Rows = [(2, "b", 20), (3, "a", 30)]

WAYS: dict[str, tuple[Callable[[Place, Any], Any], Rows]] = {
    "insertInto": (lambda t, f: f.write.insertInto(t.name), ADDED),
    "insertInto over": (lambda t, f: f.write.insertInto(t.name, overwrite=True), ONLY),
    "saveAsTable": (
        lambda t, f: f.write.format("tablefmt").mode("append").saveAsTable(t.name),
        ADDED,
    ),
    "save": (lambda t, f: f.write.format("tablefmt").mode("append").save(t.path), ADDED),
    "save over": (lambda t, f: f.write.format("tablefmt").mode("overwrite").save(t.path), ONLY),
    "append": (lambda t, f: f.writeTo(t.name).append(), ADDED),
    "overwritePartitions": (lambda t, f: f.writeTo(t.name).overwritePartitions(), DYNAMIC),
    "INSERT": (lambda t, f: t.spark.sql(f"INSERT INTO {t.name} VALUES (3, 'a', 30)"), ADDED),
    "UPDATE": (
        lambda t, f: t.spark.sql(f"UPDATE {t.name} SET n = 5 WHERE id = 2"),
        [START[0], (2, "b", 5)],
    ),
    "DELETE": (lambda t, f: t.spark.sql(f"DELETE FROM {t.name} WHERE id = 1"), START[1:]),
    "MERGE": (
        lambda t, f: t.spark.sql(
            f"MERGE INTO {t.name} t USING (SELECT 3L AS id, 'a' AS p, 30 AS n) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT *"
        ),
        ADDED,
    ),
    "TRUNCATE": (lambda t, f: t.spark.sql(f"TRUNCATE TABLE {t.name}"), []),
    "write": (lambda t, f: tablefmt.spark.write(f, t.path), ADDED),
    "verb": (lambda t, f: tablefmt.spark.open(t.spark, t.path).append(f), ADDED),
}


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    tablefmt.spark.register(spark)
    made: list[str] = []

    def make(session: Any = spark) -> Place:
        made.append(f"threaded{len(made)}")
        return Place(session, tmp_path, made[-1])

    yield make
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def saved(table: Place, frame: Any, mode: str = "append") -> None:
    frame.write.format("tablefmt").mode(mode).saveAsTable(table.name)


def over(table: Place, frame: Any) -> None:
    frame.write.insertInto(table.name, overwrite=True)


def raised(work: Callable[[], Any]) -> BaseException | None:
    try:
        work()
    except BaseException as error:
        return error
    return None


def in_thread(kind: Any, work: Callable[[], Any]) -> BaseException | None:
    found: list[BaseException | None] = []
    thread = kind(target=lambda: found.append(raised(work)))
    thread.start()
    thread.join()
    return found[0]


def in_pool(work: Callable[[], Any]) -> BaseException | None:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(raised, work).result()


KINDS: list[Callable[[Callable[[], Any]], BaseException | None]] = [
    lambda work: in_thread(threading.Thread, work),
    lambda work: in_thread(InheritableThread, work),
    in_pool,
    lambda work: asyncio.run(asyncio.to_thread(raised, work)),
]


def test_every_way_in_works_from_a_thread_of_its_own(place: Callable[..., Place]) -> None:
    """every kind of thread runs some calls. A JVM thread behind a new one has no session."""
    wanted, found = {}, {}
    for number, (name, (do, expected)) in enumerate(WAYS.items()):
        table = place()
        frame = table.frame()
        found[name] = KINDS[number % len(KINDS)](partial(do, table, frame)) or rows(table.path)
        wanted[name] = expected
    assert found == wanted
    table = place()
    frame = table.frame()
    assert [run(partial(saved, table, frame)) for run in KINDS] == [None] * len(KINDS)
    assert rows(table.path) == [*START, *ONLY * len(KINDS)]


def test_errors_are_ours_in_a_thread_of_its_own(place: Callable[..., Place]) -> None:
    table = place()
    wide = table.frame().selectExpr("*", "1 AS more")

    def save(frame: Any, **options: Any) -> None:
        frame.write.format("tablefmt").options(**options).mode("append").save(table.path)

    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: table.spark.sql(f"INSERT INTO {table.name} SELECT 1"), SchemaMismatchError, "1"),
        (lambda: wide.write.insertInto(table.name), SchemaMismatchError, "Cannot write"),
        (lambda: wide.writeTo(table.name).append(), SchemaMismatchError, "more"),
        (lambda: saved(table, wide), SchemaMismatchError, "more"),
        (lambda: save(wide), SchemaMismatchError, "more"),
        (lambda: save(table.frame(), nix=1), UnsupportedFeatureError, "nix"),
    ]
    for work, kind, text in wrong:
        for run in KINDS[:2]:
            error = run(work)
            assert type(error) is kind, repr(error)
            assert text in str(error)
    assert rows(table.path) == START


def test_threads_of_two_sessions_write_one_table_at_once(
    sessions: list[Any], place: Callable[..., Place]
) -> None:
    """All of it is there in the end, once; and each write is a commit."""
    table = place()
    other = Place.__new__(Place)
    other.spark, other.name, other.path = sessions[1], table.name, table.path
    appends = [n for n, (_, expected) in WAYS.items() if expected is ADDED and n != "MERGE"]
    jobs = [(name, owner) for name in appends for owner in (table, other)] * 2
    given = [owner.frame((100 + at, "c", at)) for at, (_, owner) in enumerate(jobs)]
    gate = threading.Barrier(6)

    def work(at: int) -> BaseException | None:
        name, owner = jobs[at]
        if at < 6:
            gate.wait()
        if name == "INSERT":
            text = f"INSERT INTO {owner.name} VALUES ({100 + at}, 'c', {at})"
            return raised(lambda: owner.spark.sql(text))
        return raised(lambda: WAYS[name][0](owner, given[at]))

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(work, range(len(jobs)))) == {None}
    wanted = START + [(100 + at, "c", at) for at in range(len(jobs))]
    assert rows(table.path) == sorted(wanted, key=repr)
    assert tablefmt.open(table.path).version == 1 + len(jobs)


def test_each_session_uses_its_own_settings_beside_an_active_one(
    sessions: list[Any], place: Callable[..., Place]
) -> None:
    """Settings of the second session apply to its frames, in the main thread and in others."""
    second = sessions[1]
    second.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    for run in (raised, *KINDS[:2]):
        for session, expected in ((second, DYNAMIC), (sessions[0], ONLY)):
            table = place(session)
            assert run(partial(over, table, table.frame())) is None
            assert rows(table.path) == expected


def test_sessions_may_be_registered_in_threads_at_once(
    spark: Any, place: Callable[..., Place]
) -> None:
    """Each session is registered more than once."""
    table = place()
    made = [spark.newSession() for _ in range(3)]

    def work(session: Any) -> BaseException | None:
        def use() -> None:
            tablefmt.spark.register(session)
            saved(table, session.createDataFrame([(7, "z", 1)], COLUMNS))

        return raised(use)

    with ThreadPoolExecutor(6) as pool:
        assert [str(e) for e in pool.map(work, made * 2) if e] == []
    assert rows(table.path) == [*START, *[(7, "z", 1)] * 6]


_UNPINNED = """
import sys, threading
import tablefmt, tablefmt.spark
folder = sys.argv[1]
spark = tablefmt.spark.session(master="local[2]", **{"spark.sql.warehouse.dir": folder + "/w"})
for turn in range(2):
    tablefmt.spark.register(spark)
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{folder}/t{turn}') AS SELECT 1L AS id")
    frame = spark.range(2, 3)
    failed = []

    def work(do):
        try:
            do()
        except BaseException as error:
            failed.append(error)

    ways = [
        lambda: frame.write.insertInto("t"),
        lambda: frame.write.format("tablefmt").mode("append").saveAsTable("t"),
        lambda: spark.sql("INSERT INTO t VALUES (2)"),
        lambda: frame.writeTo("t").append(),
    ]
    threads = [threading.Thread(target=work, args=[way]) for way in ways]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed
    assert sorted(r.id for r in spark.table("t").collect()) == [1, 2, 2, 2, 2]
    spark.sql("DROP TABLE t")
    spark.stop()
    spark = tablefmt.spark.session(master="local[2]", **{"spark.sql.warehouse.dir": folder + "/w"})
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("pin_thread", ["true", "false"])
def test_python_threads_need_no_java_thread_of_their_own(tmp_path: Path, pin_thread: str) -> None:
    """PYSPARK_PIN_THREAD; and a session that was stopped, with another one after it."""
    environment = {**os.environ, "PYSPARK_PIN_THREAD": pin_thread}
    ran = subprocess.run(
        [sys.executable, "-c", _UNPINNED, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
