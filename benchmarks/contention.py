"""Measure many processes that write to one table on local disk, against deltalake.

    python -m benchmarks.contention [--rounds 3] [--processes 16 32] [--appends 40] [--long 320]

Appends: all processes append small rows at the same time, one after the other. Deletes: each
process deletes its own rows, in its own partition, or one by one from a file that all share. For
deltalake every exception counts as a failure, because its writers give up after 15 attempts.
tablefmt is durable before a commit returns; deltalake does not fsync.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
from benchmarks.harness import ratio, run_alternating, save, summary
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import PutReply
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table, open_at

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("value", pa.float64())])
FEWER = 4
"""deltalake gets this share of the work, or a round would take minutes."""


def rows_of(first: int, count: int = 3, p: int = 0) -> pa.Table:
    """Return rows with ids from `first` on."""
    values = range(first, first + count)
    columns = {"id": list(values), "p": [p] * count, "value": [v / 7 for v in values]}
    return pa.table(columns, schema=SCHEMA)


class Counted(ForwardingStore):
    """Counts the puts of log entries."""

    puts = 0

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Count the put, and pass it to the inner store."""
        self.puts += key.startswith("_log/0")
        return super().put_if_absent(key, body)


Work = Callable[[Any, int, int], Any]
"""Called with an open table, the number of the process and of the piece of work."""


def ours_append(table: Table, process: int, piece: int) -> None:
    """Append three rows with unique ids."""
    table.append(rows_of(3 * (process * 100_000 + piece)))


def ours_delete(table: Table, process: int, piece: int) -> None:
    """Delete one row of the process's own partition, or of the only file."""
    table.delete(f"p = {process} AND id = {piece}")


def theirs_append(table: Any, process: int, piece: int) -> None:
    """Append the same rows with deltalake."""
    from deltalake import write_deltalake

    write_deltalake(table, rows_of(3 * (process * 100_000 + piece)), mode="append")


def theirs_delete(table: Any, process: int, piece: int) -> None:
    """Delete the same row with deltalake, on the newest version."""
    table.update_incremental()
    table.delete(f"p = {process} AND id = {piece}")


def _worker(
    work: Work, folder: str, process: int, pieces: int, ready: Any, go: Any, results: Any
) -> None:
    store = Counted(LocalStore(folder))
    ours = work.__name__.startswith("ours")
    table = open_at(store) if ours else _delta_table(folder)
    failures, puts = 0, []
    ready.release()
    go.wait()
    for piece in range(pieces):
        before = store.puts
        try:
            work(table, process, piece)
        except Exception as error:
            failures += 1
            last = f"{type(error).__name__}: {error}"[:200]
            if failures == 1:
                print(last, flush=True)
        else:
            puts.append(store.puts - before)
    results.put((failures, time.perf_counter(), puts))


def _delta_table(folder: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(folder)


def contend(work: Work, folder: str, processes: int, pieces: int) -> dict[str, Any]:
    """Run all processes; return the seconds from the start to the end of the last."""
    context = multiprocessing.get_context("spawn")
    ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(target=_worker, args=(work, folder, n, pieces, ready, go, results))
        for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    start = time.perf_counter()
    go.set()
    said = [results.get(timeout=1800) for _ in workers]
    seconds = max(end for _, end, _ in said) - start
    for worker in workers:
        worker.join()
    failures = sum(failed for failed, _, _ in said)
    done = processes * pieces - failures
    result = {
        "processes": processes,
        "tried": processes * pieces,
        "failures": failures,
        "seconds": seconds,
        "per_s": done / seconds,
    }
    puts = sorted(itertools.chain.from_iterable(counts for _, _, counts in said))
    if any(puts):
        result["puts_per_commit"] = {
            "mean": sum(puts) / len(puts),
            "p99": puts[int(len(puts) * 0.99)],
            "max": puts[-1],
        }
    return result


class Tables:
    """Fresh tables below one folder, and what became of each contest."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results: dict[str, list[dict[str, Any]]] = {}
        self._numbers = itertools.count()

    def folder(self) -> str:
        """Return a path that does not exist."""
        return str(self.root / str(next(self._numbers)))

    def keep(self, name: str, result: dict[str, Any]) -> float:
        """Record a contest and return its commits per second."""
        self.results.setdefault(name, []).append(result)
        return float(result["per_s"])

    def ours_append(self, processes: int, appends: int, name: str) -> float:
        """Run appends; check failures, version gaps, unique rows and rising times."""
        folder = self.folder()
        tablefmt.create(folder, SCHEMA)
        result = contend(ours_append, folder, processes, appends)
        check(folder, processes, appends)
        assert result["failures"] == 0, result
        return self.keep(name, result)

    def theirs_append(self, processes: int, appends: int, name: str) -> float:
        """Run the contest with deltalake."""
        from deltalake import write_deltalake

        folder = self.folder()
        write_deltalake(folder, rows_of(-3))
        return self.keep(name, contend(theirs_append, folder, processes, appends))

    def ours_delete(self, processes: int, deletes: int, name: str, *, partitioned: bool) -> float:
        """Run deletes; check failures and the remaining rows."""
        folder = self.folder()
        table = tablefmt.create(folder, SCHEMA, partition_by=["p"] if partitioned else [])
        table.append(self._filled(processes, deletes))
        result = contend(ours_delete, folder, processes, deletes)
        table.refresh()
        assert result["failures"] == 0, result
        assert table.version == 1 + processes * deletes
        assert set(table.to_arrow()["id"].to_pylist()) == {deletes}
        return self.keep(name, result)

    def theirs_delete(self, processes: int, deletes: int, name: str, *, partitioned: bool) -> float:
        """Run the contest with deltalake."""
        from deltalake import write_deltalake

        folder = self.folder()
        rows = self._filled(processes, deletes)
        write_deltalake(folder, rows, partition_by=["p"] if partitioned else None)
        return self.keep(name, contend(theirs_delete, folder, processes, deletes))

    def _filled(self, processes: int, deletes: int) -> pa.Table:
        """Return, for each process, the rows that it deletes and one that stays."""
        return pa.concat_tables([rows_of(0, deletes + 1, p) for p in range(processes)])


def check(folder: str, processes: int, appends: int) -> None:
    """Check that every append is one version, its rows exist once, and times rise."""
    table = tablefmt.open(folder)
    assert table.version == processes * appends, table.version
    stamps = table.history().sort_by("version")["timestamp"].to_pylist()
    assert len(stamps) == table.version + 1
    assert all(a < b for a, b in itertools.pairwise(stamps))
    found = sorted(table.to_arrow(columns=["id"])["id"].to_pylist())
    firsts = (3 * (process * 100_000 + n) for process in range(processes) for n in range(appends))
    assert found == [first + i for first in firsts for i in range(3)]


def compared(
    rounds: int, ours: Callable[[str], float], theirs: Callable[[str], float], name: str
) -> dict[str, Any]:
    """Run alternating rounds; figures are commits per second."""
    mine, other = f"tablefmt, {name}", f"deltalake, {name}"
    figures = run_alternating({mine: lambda: ours(mine), other: lambda: theirs(other)}, rounds)
    return {"per_s": summary(figures), "ratio": ratio(figures, mine, other)}


def appends(tables: Tables, given: argparse.Namespace) -> dict[str, Any]:
    """Measure blind appends by many concurrent processes."""
    found: dict[str, Any] = {}
    for processes in given.processes:

        def ours(name: str, n: int = processes) -> float:
            return tables.ours_append(n, given.appends, name)

        def theirs(name: str, n: int = processes) -> float:
            return tables.theirs_append(n, max(1, given.appends // FEWER), name)

        name = f"{processes} processes append"
        found[name] = compared(given.rounds, ours, theirs, name)
    return found


def deletes(tables: Tables, given: argparse.Namespace) -> dict[str, Any]:
    """Measure deletes of a process's own rows, in separate partitions or in one shared file."""
    found: dict[str, Any] = {}
    processes, most = given.processes[0], max(1, given.appends // FEWER)
    for partitioned, where in ((True, "in separate partitions"), (False, "in one file")):

        def ours(name: str, partitioned: bool = partitioned) -> float:
            return tables.ours_delete(processes, most, name, partitioned=partitioned)

        def theirs(name: str, partitioned: bool = partitioned) -> float:
            return tables.theirs_delete(processes, max(1, most // 2), name, partitioned=partitioned)

        name = f"{processes} processes delete their own rows {where}"
        found[name] = compared(given.rounds, ours, theirs, name)
    return found


def main() -> None:
    """Run all cases and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--appends", type=int, default=40)
    parser.add_argument("--long", type=int, default=320)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tablefmt-bench-"))
    tables = Tables(root)
    try:
        payload: dict[str, Mapping[str, Any]] = {**appends(tables, given), **deletes(tables, given)}
        if given.long:
            most = given.processes[-1]
            name = f"tablefmt, {most} processes of {given.long} appends"
            tables.ours_append(most, given.long, name)
        save("contention", {"compared": payload, "contests": tables.results})
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
