"""Measure small appends on local disk against deltalake: rate, flatness, contention.

    python -m benchmarks.appends [--rounds 5] [--rows 3] [--history 5000] [--processes 16]

Flatness is the rate over a long history. tablefmt fsyncs the data file, the entry and their folders
before a commit returns. deltalake runs with its defaults, which do not fsync. Each round of a
comparison runs the peers in turn.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
from benchmarks.harness import ratio, run_alternating, save, summary
from tablefmt.commit.driver import commit
from tablefmt.commit.transaction_plan import Plan, Staged
from tablefmt.model.log_entry import AddedFiles, Operation, OperationClass

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])


def rows_of(count: int) -> pa.Table:
    """Return rows of three columns."""
    values = range(count)
    return pa.table(
        {"id": list(values), "name": [f"n{i}" for i in values], "value": [i / 7 for i in values]},
        schema=SCHEMA,
    )


class Peers:
    """Fresh tables of each peer below one folder, warmed by one append."""

    def __init__(self, root: Path, rows: pa.Table) -> None:
        self.root, self.rows, self.made = root, rows, 0

    def _folder(self) -> str:
        self.made += 1
        return str(self.root / str(self.made))

    def tablefmt_handle(self, appends: int) -> float:
        """Return appends per second through one handle."""
        table = tablefmt.create(self._folder(), SCHEMA)
        table.append(self.rows)
        return _rate(lambda: table.append(self.rows), appends)

    def tablefmt_by_path(self, appends: int) -> float:
        """Return appends per second, with a new open each time."""
        folder = self._folder()
        tablefmt.create(folder, SCHEMA).append(self.rows)
        return _rate(lambda: tablefmt.open(folder).append(self.rows), appends)

    def tablefmt_log_only(self, commits: int) -> float:
        """Return commits per second of entries whose data file is not written."""
        table = tablefmt.create(self._folder(), SCHEMA)
        context = table.context

        def one() -> None:
            transaction = context.environment.nonce()
            columns: dict[str, Any] = {
                "path": [f"data/{transaction}/0.parquet"],
                "size": [700],
                "rows": [3],
            }
            head = context.view.head
            plan = Plan.of(
                Staged(
                    transaction=transaction,
                    operation=Operation(name="WRITE", cls=OperationClass.INSERT),
                    blind=True,
                    written_under=head.metadata,
                    read_version=head.version,
                    add=AddedFiles(columns),
                ),
                floating=True,
            )
            commit(context.store, plan, context.environment, context.view)

        one()
        return _rate(one, commits)

    def delta_handle(self, appends: int) -> float:
        """Return appends per second through one handle."""
        from deltalake import DeltaTable, write_deltalake

        folder = self._folder()
        write_deltalake(folder, self.rows)
        table = DeltaTable(folder)
        return _rate(lambda: write_deltalake(table, self.rows, mode="append"), appends)

    def delta_by_path(self, appends: int) -> float:
        """Return appends per second, by path each time."""
        from deltalake import write_deltalake

        folder = self._folder()
        write_deltalake(folder, self.rows)
        return _rate(lambda: write_deltalake(folder, self.rows, mode="append"), appends)


def _rate(action: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        action()
    return times / (time.perf_counter() - start)


def flatness(root: Path, rows: pa.Table, history: int) -> dict[str, Any]:
    """Return the rates of consecutive blocks of 500 appends through one handle."""
    table = tablefmt.create(str(root / "history"), SCHEMA)
    table.append(rows)
    rates = [_rate(lambda: table.append(rows), 500) for _ in range(history // 500)]
    third = max(1, len(rates) // 3)
    first, last = sorted(rates[:third])[third // 2], sorted(rates[-third:])[third // 2]
    return {"blocks_of_500_per_s": [round(r) for r in rates], "last_third_over_first": last / first}


def _writer(kind: str, folder: str, appends: int, ready: Any, go: Any, results: Any) -> None:
    rows = rows_of(3)
    failures = 0
    if kind == "tablefmt":
        table = tablefmt.open(folder)
        action: Callable[[], Any] = lambda: table.append(rows)  # noqa: E731
    else:
        from deltalake import write_deltalake

        action = lambda: write_deltalake(folder, rows, mode="append")  # noqa: E731
    ready.release()
    go.wait()
    for _ in range(appends):
        try:
            action()
        except Exception:
            failures += 1
    results.put((failures, time.perf_counter()))


def contention(kind: str, folder: str, processes: int, appends: int) -> dict[str, Any]:
    """Run many processes that append to one table, started together."""
    context = multiprocessing.get_context("spawn")
    ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
    arguments = (kind, folder, appends, ready, go, results)
    workers = [context.Process(target=_writer, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    start = time.perf_counter()
    go.set()
    ends = [results.get(timeout=600) for _ in workers]
    seconds = max(end for _, end in ends) - start
    for worker in workers:
        worker.join()
    failures = sum(f for f, _ in ends)
    done = processes * appends - failures
    return {"failures": failures, "commits": done, "seconds": seconds, "per_s": done / seconds}


def contended_tablefmt(root: Path, processes: int, appends: int) -> dict[str, Any]:
    """Run the contention on a fresh table; check that rows are unique and versions have no gap."""
    folder = str(root / f"contended-{time.monotonic_ns()}")
    table = tablefmt.create(folder, SCHEMA)
    result = contention("tablefmt", folder, processes, appends)
    table.refresh()
    assert table.version == result["commits"], (table.version, result)
    assert table.scan().count() == 3 * result["commits"]
    return result


def contended_delta(root: Path, processes: int, appends: int) -> dict[str, Any]:
    """Run the contention on a fresh table of deltalake."""
    from deltalake import write_deltalake

    folder = str(root / f"contended-{time.monotonic_ns()}")
    write_deltalake(folder, rows_of(3))
    return contention("deltalake", folder, processes, appends)


def main() -> None:
    """Run all cases and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--history", type=int, default=5000)
    parser.add_argument("--processes", type=int, default=16)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tablefmt-bench-"))
    peers = Peers(root, rows_of(given.rows))
    try:
        rates = run_alternating(
            {
                "tablefmt, one handle": lambda: peers.tablefmt_handle(500),
                "deltalake, one handle": lambda: peers.delta_handle(500),
                "tablefmt, by path": lambda: peers.tablefmt_by_path(100),
                "deltalake, by path": lambda: peers.delta_by_path(100),
                "tablefmt, log only": lambda: peers.tablefmt_log_only(1000),
            },
            given.rounds,
        )
        contended = [contended_tablefmt(root, given.processes, 40) for _ in range(given.rounds)]
        payload = {
            "appends_per_s": summary(rates),
            "ratio_one_handle": ratio(rates, "tablefmt, one handle", "deltalake, one handle"),
            "ratio_by_path": ratio(rates, "tablefmt, by path", "deltalake, by path"),
            "history": flatness(root, peers.rows, given.history),
            "contended_tablefmt": contended,
            "contended_deltalake": contended_delta(root, given.processes, 10),
        }
        save("appends", payload)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
