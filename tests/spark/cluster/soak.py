"""Statements on a standalone cluster whose executors die by SIGKILL, beside a plain Python model.

python -m tests.spark.cluster.soak MASTER WORKERS FOLDER SECONDS SEED CONFIG

Prints a line of JSON when it ends. After each statement the driver reads the whole table and
compares it with the model. A statement that failed must have left nothing. `tools/logdump` reads
the tables now and then. One application; `test_soak.py` starts several.
"""

from __future__ import annotations

import faulthandler
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitUnknownError, TablefmtError
from tablefmt.spark.backends.backend_choice import SETTING
from tests.oracle import assert_agrees
from tests.places import ROOT
from tests.spark.cluster.standalone import Killer
from tests.spark.looking import data_files
from tests.spark.shapes import Row, Rows, World, distinct, group_by, join, sort, window

DDL = "id BIGINT, p INT, n BIGINT, s STRING"
COLUMNS = ("id", "CAST(id % 4 AS INT) AS p", "id * 7 % 101 AS n", "concat('s', id % 13) AS s")
HANGING_SECONDS = 900
"""A statement that takes longer has its stacks printed, and ends the run."""
ORACLE_EVERY = 20
QUERIES = (group_by, distinct, sort, join, window)

TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "parted": {"partition_by": ["p"]},
    "copied": {"partition_by": ["p"], "properties": {"deleteMode": "copy-on-write"}},
}
"""Arguments of `create`."""


def made(ids: range) -> Rows:
    """Return what COLUMNS makes of ids."""
    return {i: (i, i % 4, i * 7 % 101, f"s{i % 13}") for i in ids}


def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do work in Python that takes a little, so that executors die during it."""
    import time

    for batch in batches:
        time.sleep(0.1)
        yield batch


class Table:
    """One table, and what it has to hold."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.rows: Rows = {}
        self.older: dict[int, Rows] = {}
        """Rows by version, for RESTORE."""

    @property
    def name(self) -> str:
        return f"tablefmt.`{self.uri}`"

    def check(self, at: str) -> None:
        """Compare the whole table with the model, in the driver alone."""
        arrow = tablefmt.open(self.uri).to_arrow().select(["id", "p", "n", "s"])
        found = sorted(zip(*arrow.to_pydict().values(), strict=True))
        expected = sorted(self.rows.values())
        if found != expected:
            more, fewer = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
            raise AssertionError(
                f"after {at}: {self.uri} has {sum(more.values())} rows too many, such as "
                f"{list(more)[:5]}, and {sum(fewer.values())} too few, such as {list(fewer)[:5]}"
            )


Statement = Callable[["Soak", Table], Rows]
"""Runs a statement and returns what the table then holds."""


class Soak:
    """One application."""

    def __init__(self, spark: Any, folder: Path, killer: Killer, chance: random.Random) -> None:
        self.spark = spark
        self.killer = killer
        self.chance = chance
        self.folder = folder
        self.next_id = 0
        self.statements: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.tables = []
        for name, how in TABLES.items():
            uri = str(folder / name)
            tablefmt.create(uri, DDL, **how)
            self.tables.append(Table(uri))
        self.feed = Table(str(folder / "feed"))
        self.copy = Table(str(folder / "copy"))
        self.counts = str(folder / "counts")
        tablefmt.create(self.feed.uri, DDL)
        tablefmt.create(self.copy.uri, DDL, partition_by=["p"])

    def ids(self, number: int) -> range:
        """Return ids that no row has had."""
        first, self.next_id = self.next_id, self.next_id + number
        return range(first, self.next_id)

    def frame(self, ids: range) -> Any:
        """Return rows of `made`; now and then they go through Python, and a shuffle after it."""
        frame = self.spark.range(ids.start, ids.stop, 1, 4).selectExpr(*COLUMNS)
        way = self.chance.randrange(3)
        if way:
            frame = frame.mapInArrow(passing, "id long, p int, n long, s string")
        return frame.repartition(3, "s") if way == 2 else frame

    def run(self, name: str, work: Callable[[], None], *, quiet: bool = False) -> str | None:
        """Run work while executors may die. Return the name of what it raised."""
        self.statements[name] += 1
        started, kills = time.monotonic(), self.killer.kills
        faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
        usual = self.seconds.get(name, 4.0)
        try:
            with nullcontext() if quiet else self.killer.during(usual):
                work()
        except AssertionError:
            raise
        except Exception as error:
            kind = kind_of(error)
            self.failures[f"{name}: {kind}"] += 1
            if isinstance(error, CommitUnknownError):
                raise
            return kind
        finally:
            faulthandler.cancel_dump_traceback_later()
        took = time.monotonic() - started
        killed = self.killer.kills > kills
        self.outcomes["survived" if killed else "undisturbed"] += 1
        if not killed:
            self.seconds[name] = 0.6 * self.seconds.get(name, took) + 0.4 * took
        return None

    def change(self, table: Table, statement: Statement) -> None:
        """Run one statement that changes a table, and hold the table against the model."""
        name = statement.__name__
        after: list[Rows] = []
        before = tablefmt.open(table.uri).version
        try:
            failed = self.run(name, lambda: after.append(statement(self, table)))
        except CommitUnknownError as error:
            commit = tablefmt.open(table.uri).resolve(error.transaction, error.version)
            self.outcomes["resolved"] += 1
            raise AssertionError(f"{name}: {error}: {commit}") from error
        version = tablefmt.open(table.uri).version
        if failed:
            self.outcomes["failed"] += 1
            if version != before:
                raise AssertionError(f"{name} failed ({failed}), and made version {version}")
        else:
            old, table.rows = table.rows, after[0]
            table.older[before] = old
            for kept in sorted(table.older)[:-4]:
                del table.older[kept]
        table.check(f"{name}, {failed or 'which succeeded'}")
        if not failed and self.chance.random() < 0.25:
            self.changes(table, old, before)

    def changes(self, table: Table, old: Rows, before: int) -> None:
        """Compare the row changes of the last statement with the difference of the two models."""
        balance: Counter[Row] = Counter()

        def read() -> None:
            frame = tablefmt.spark.open(self.spark, table.uri).changes(after_version=before)
            sums = frame.groupBy("_change_type", "id", "p", "n", "s").count().collect()
            balance.clear()
            for kind, *row, count in sums:
                sign = 1 if kind in ("insert", "update_postimage") else -1
                balance[tuple(row)] += sign * count

        if self.run("changes", read) is None:
            expected: Counter[Row] = Counter(table.rows.values())
            expected.subtract(old.values())
            found = {row: n for row, n in balance.items() if n}
            if found != {row: n for row, n in expected.items() if n}:
                raise AssertionError(f"changes after {before} of {table.uri} are {found}")

    def query(self, table: Table) -> None:
        """Compare the answers of Spark with those of Python."""
        shape = self.chance.choice(QUERIES)

        def read() -> None:
            shape(World(self.spark, table.uri, table.rows))

        self.run(shape.__name__, read)

    def stream(self) -> None:
        """Append to the source of two streams, and run them until they have caught up."""
        self.change(self.feed, append)
        if not self.feed.rows:
            return
        for name, start in (("stream", self.start_copy), ("stateful", self.start_counts)):
            for attempt in range(8):
                work = lambda start=start: start().awaitTermination()  # noqa: E731
                if self.run(name, work, quiet=attempt > 4) is None:
                    break
            else:
                raise AssertionError(f"{name} failed 8 times: {self.failures}")
        self.copy.rows = dict(self.feed.rows)
        self.copy.check("stream")
        found = tablefmt.open(self.counts).to_arrow().to_pydict()
        numbers = Counter(row[1] for row in self.feed.rows.values())
        if dict(zip(found["p"], found["count"], strict=True)) != numbers:
            raise AssertionError(f"the stateful stream counted {found}, not {numbers}")

    def start_copy(self) -> Any:
        frame = self.spark.readStream.format("tablefmt").load(self.feed.uri)
        return self.started(frame.mapInArrow(passing, frame.schema), self.copy.uri, "append")

    def start_counts(self) -> Any:
        frame = self.spark.readStream.format("tablefmt").load(self.feed.uri)
        return self.started(frame.groupBy("p").count(), self.counts, "complete")

    def started(self, frame: Any, uri: str, mode: str) -> Any:
        writer = frame.writeStream.format("tablefmt").outputMode(mode).trigger(availableNow=True)
        return writer.option("checkpointLocation", f"{uri}.checkpoint").start(uri)

    def step(self) -> None:
        """Do one thing at random."""
        backend = "arrow" if self.chance.random() < 0.25 else "auto"
        self.spark.conf.set(SETTING, backend)
        table = self.chance.choice(self.tables)
        if not table.rows or self.chance.random() < 0.1:
            self.change(table, append)
        elif self.chance.random() < 0.2:
            self.query(table)
        elif self.chance.random() < 0.12:
            self.stream()
        else:
            self.change(table, self.chance.choice(STATEMENTS))

    def oracle(self) -> None:
        """Compare every table with the second reader."""
        for table in [*self.tables, self.feed, self.copy]:
            assert_agrees(tablefmt.open(table.uri))

    def orphans(self) -> int:
        """Return the number of data files that no version names: attempts that died left them."""
        found = 0
        for table in [*self.tables, self.feed, self.copy]:
            opened = tablefmt.open(table.uri)
            named = set()
            for stored in opened.context.view.entries_after(0):
                if stored.entry.add is not None:
                    named.update(f"{table.uri}/{path}" for path in stored.entry.add.columns["path"])
            found += len(set(data_files(table.uri)) - named)
        return found


def kind_of(error: BaseException) -> str:
    """Return what failed, in few words: the package's error, or the JVM's first one."""
    if isinstance(error, TablefmtError):
        return f"{type(error).__name__} {re.sub('[0-9a-f]{8,}|[0-9]+', '#', str(error))[:160]}"
    text = re.sub("[0-9]+", "#", str(error))
    causes = re.findall(r"(?:Caused by: |\n: )([^\n]{0,160})", text)
    return f"{type(error).__name__} {causes[-1] if causes else text[:200]}"


def append(soak: Soak, table: Table) -> Rows:
    ids = soak.ids(soak.chance.randrange(100, 600))
    tablefmt.spark.write(soak.frame(ids), table.uri)
    return table.rows | made(ids)


def append_by_format(soak: Soak, table: Table) -> Rows:
    ids = soak.ids(soak.chance.randrange(100, 600))
    soak.frame(ids).write.format("tablefmt").mode("append").save(table.uri)
    return table.rows | made(ids)


def insert_groups(soak: Soak, table: Table) -> Rows:
    """Insert groups of the table itself."""
    first = soak.ids(4).start
    soak.spark.sql(
        f"INSERT INTO {table.name} SELECT {first} + p, p, count(*), max(s) "
        f"FROM {table.name} GROUP BY p"
    )
    rows = list(table.rows.values())
    new = {
        first + p: (
            first + p, p, sum(row[1] == p for row in rows), max(r[3] for r in rows if r[1] == p)
        )
        for p in {row[1] for row in rows}
    }  # fmt: skip
    return table.rows | new


def overwrite(soak: Soak, table: Table) -> Rows:
    """Replace one partition, or what would be one."""
    p = soak.chance.randrange(4)
    ids = soak.ids(soak.chance.randrange(40, 400))
    frame = soak.frame(ids).where(f"p = {p}")
    tablefmt.spark.open(soak.spark, table.uri).overwrite(frame, where=f"p = {p}")
    kept = {i: row for i, row in table.rows.items() if row[1] != p}
    return kept | {i: row for i, row in made(ids).items() if row[1] == p}


def delete(soak: Soak, table: Table) -> Rows:
    modulus, rest = soak.chance.randrange(3, 9), soak.chance.randrange(3)
    soak.spark.sql(f"DELETE FROM {table.name} WHERE id % {modulus} = {rest}")
    return {i: row for i, row in table.rows.items() if i % modulus != rest}


def update(soak: Soak, table: Table) -> Rows:
    modulus, rest = soak.chance.randrange(2, 9), soak.chance.randrange(2)
    soak.spark.sql(f"UPDATE {table.name} SET n = n + id, s = 'u' WHERE id % {modulus} = {rest}")
    return {
        i: (i, p, n + i, "u") if i % modulus == rest else (i, p, n, s)
        for i, p, n, s in table.rows.values()
    }


def merge(soak: Soak, table: Table) -> Rows:
    """Merge groups of a query: updates, deletes and inserts."""
    step, new = soak.chance.randrange(2, 7), soak.ids(40)
    soak.spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT id AS k, max(id) * 3 AS v "
        f"FROM range(0, {new.stop}, {step}) GROUP BY id) u ON t.id = u.k "
        "WHEN MATCHED AND t.p = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET n = u.v, s = 'm' "
        f"WHEN NOT MATCHED AND u.k >= {new.start} THEN INSERT (id, p, n, s) "
        "VALUES (u.k, CAST(u.k % 4 AS INT), u.v, 'i')"
    )
    rows = dict(table.rows)
    for i in range(0, new.stop, step):
        if i in rows:
            _, p, _, _ = rows.pop(i)
            if p != 3:
                rows[i] = (i, p, i * 3, "m")
        elif i >= new.start:
            rows[i] = (i, i % 4, i * 3, "i")
    return rows


def merge_frame(soak: Soak, table: Table) -> Rows:
    """Merge rows that come through Python: replaced, or inserted."""
    old = soak.chance.randrange(max(1, soak.next_id - 200))
    soak.ids(30)
    ids = range(old, soak.next_id)
    tablefmt.spark.open(soak.spark, table.uri).merge(
        soak.frame(ids), "t.id = s.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    return table.rows | made(ids)


def compact(soak: Soak, table: Table) -> Rows:
    soak.spark.sql(f"OPTIMIZE {table.name}")
    return table.rows


def cluster(soak: Soak, table: Table) -> Rows:
    soak.spark.sql(f"OPTIMIZE {table.name} ZORDER BY (n, id)")
    return table.rows


def restore(soak: Soak, table: Table) -> Rows:
    version = soak.chance.choice(sorted(table.older)) if table.older else None
    if version is None:
        return table.rows
    soak.spark.sql(f"RESTORE {table.name} TO VERSION AS OF {version}")
    return table.older[version]


STATEMENTS: tuple[Statement, ...] = (
    append,
    append_by_format,
    insert_groups,
    overwrite,
    delete,
    delete,
    update,
    merge,
    merge_frame,
    compact,
    cluster,
    restore,
)


def settings(config: str) -> dict[str, str]:
    """Return Spark's settings of a configuration: some of kryo, dynamic, speculation, aqe."""
    names = set(config.split("+"))
    told = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "700m",
        "spark.executor.cores": "2",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": str("aqe" in names).lower(),
        "spark.speculation": str("speculation" in names).lower(),
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.sql.warehouse.dir": "/nonexistent",
    }
    if "kryo" in names:
        told["spark.serializer"] = "org.apache.spark.serializer.KryoSerializer"
    if "dynamic" in names:
        told |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "0",
            "spark.dynamicAllocation.initialExecutors": "0",
            "spark.dynamicAllocation.executorIdleTimeout": "2s",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        }
    return told


def main(master: str, workers: str, folder: str, seconds: str, seed: str, config: str) -> None:
    """Run one application for so many seconds, from when its session is there."""
    chance = random.Random(f"{seed} {config}")
    spark = tablefmt.spark.session("soak", master=master, **settings(config))
    spark.sparkContext.setLogLevel("OFF")
    tablefmt.spark.register(spark)
    killer = Killer([int(pid) for pid in workers.split(",")], random.Random(seed))
    soak = Soak(spark, Path(folder), killer, chance)
    raised = ""
    until = time.monotonic() + float(seconds)
    try:
        done = 0
        while time.monotonic() < until:
            soak.step()
            done += 1
            if done % ORACLE_EVERY == 0:
                soak.oracle()
        soak.oracle()
    except Exception as error:
        import traceback

        raised = "".join(traceback.format_exception(error))[-6000:]
    report = {
        "config": config,
        "seed": seed,
        "statements": dict(soak.statements),
        "kills": killer.kills,
        "outcomes": dict(soak.outcomes),
        "failures": dict(soak.failures),
        "orphans": soak.orphans(),
        "versions": {Path(t.uri).name: tablefmt.open(t.uri).version for t in soak.tables},
        "raised": raised,
    }
    print(json.dumps(report), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
