"""Measure processes that append to one table on a real S3 server, against deltalake.

    python -m benchmarks.s3_contention [--rounds 3] [--writers 1 8] [--round-trip 0 20]

The server is versitygw or MinIO, near and 20 ms away: TABLEFMT_TEST_S3_SERVER or the PATH names it.
All processes append small rows at the same time. The first append of each, which creates clients
and probes the store, is not counted. For deltalake every exception counts as a failure. The result
has the machine's load before each run: do not compare rates of different runs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tablefmt
from benchmarks.contention import SCHEMA, rows_of
from benchmarks.delay import delayed
from benchmarks.harness import ratio, run_alternating, save, summary
from tablefmt.store.location import open_store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import open_at

KEY, SECRET, BUCKET = "bench-key", "bench-secret", "bench"
SERVERS = ("versitygw", "minio")


def program() -> str:
    """Return the server's program."""
    named = os.environ.get("TABLEFMT_TEST_S3_SERVER")
    found = named or next((p for p in map(shutil.which, SERVERS) if p), None)
    if not found:
        raise SystemExit("no versitygw and no minio on the PATH, nor in TABLEFMT_TEST_S3_SERVER")
    return found


@contextlib.contextmanager
def served(server: str, folder: Path) -> Iterator[str]:
    """Run a server with one bucket; yield its endpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    names = {"ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET}
    command = ["--port", address, "--quiet", "--keep-alive", "posix", str(folder)]
    if "minio" in Path(server).name:
        names = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
        command = ["server", "--quiet", "--address", address, str(folder)]
    environment = {**os.environ, **names}
    with subprocess.Popen(
        [server, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _make_bucket(f"http://{address}")
            yield f"http://{address}"
        finally:
            process.terminate()


def _make_bucket(endpoint: str) -> None:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    for _ in range(100):
        try:
            client.create_bucket(Bucket=BUCKET)
            return
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def options(endpoint: str) -> dict[str, Any]:
    """Return the storage options for s3fs."""
    region = {"region_name": "us-east-1"}
    return {"key": KEY, "secret": SECRET, "endpoint_url": endpoint, "client_kwargs": region}


def delta_options(endpoint: str) -> dict[str, str]:
    """Return the storage options for deltalake."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "conditional_put": "etag",
    }


def _ours(uri: str, endpoint: str) -> Any:
    store = CountingStore(open_store(uri, options(endpoint)))
    table = open_at(store)
    return table.append, store


def _theirs(uri: str, endpoint: str) -> Any:
    from deltalake import DeltaTable, write_deltalake

    table = DeltaTable(uri, storage_options=delta_options(endpoint))

    def append(rows: Any) -> None:
        write_deltalake(table, rows, mode="append")

    return append, None


def _worker(
    whose: str, uri: str, endpoint: str, number: int, appends: int, ready: Any, go: Any, said: Any
) -> None:
    append, store = (_ours if whose == "tablefmt" else _theirs)(uri, endpoint)
    failures, waits = 0, []
    # What a process does once: clients, and the probe of the store.
    append(rows_of(3 * (number * 100_000 + appends)))
    ready.release()
    go.wait()
    if store is not None:
        store.reset()
    used = resource.getrusage(resource.RUSAGE_SELF)
    for n in range(appends):
        start = time.perf_counter()
        try:
            append(rows_of(3 * (number * 100_000 + n)))
        except Exception as error:
            failures += 1
            if failures == 1:
                print(f"{type(error).__name__}: {error}"[:200], flush=True)
        else:
            waits.append(time.perf_counter() - start)
    end = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    log = [verb for verb, key in store.requests if key.startswith("_log")] if store else []
    said.put((failures, end, waits, cpu, Counter(log)))


def contend(whose: str, uri: str, endpoint: str, writers: int, appends: int) -> dict[str, Any]:
    """Run all writers; return commits per second, waits and costs of a commit."""
    context = multiprocessing.get_context("spawn")
    ready, go, said = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(target=_worker, args=(whose, uri, endpoint, n, appends, ready, go, said))
        for n in range(writers)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    load, start = os.getloadavg()[0], time.perf_counter()
    go.set()
    found = [said.get(timeout=1800) for _ in workers]
    seconds = max(one[1] for one in found) - start
    for worker in workers:
        worker.join()
    failures = sum(one[0] for one in found)
    waits = sorted(itertools.chain.from_iterable(one[2] for one in found))
    done = len(waits)
    log: Counter[str] = sum((one[4] for one in found), Counter())
    return {
        "writers": writers,
        "tried": writers * appends,
        "failures": failures,
        "per_s": done / seconds,
        "wait_ms": {
            "median": 1000 * statistics.median(waits),
            "p99": 1000 * waits[int(done * 0.99)],
        },
        "cpu_ms_per_commit": 1000 * sum(one[3] for one in found) / done,
        "log_requests_per_commit": {verb: count / done for verb, count in sorted(log.items())},
        "load_before": load,
    }


class Contests:
    """Fresh tables at one server, and what became of each contest."""

    def __init__(self) -> None:
        self.results: dict[str, list[dict[str, Any]]] = {}
        self._numbers = itertools.count()

    def run(self, whose: str, endpoint: str, writers: int, appends: int, name: str) -> float:
        """Return commits per second; check our commits."""
        uri = f"s3://{BUCKET}/{next(self._numbers)}"
        if whose == "tablefmt":
            tablefmt.create(uri, SCHEMA, storage_options=options(endpoint))
        else:
            from deltalake import write_deltalake

            write_deltalake(uri, rows_of(-3), storage_options=delta_options(endpoint))
        result = contend(whose, uri, endpoint, writers, appends)
        print(name, result, flush=True)
        if whose == "tablefmt":
            assert result["failures"] == 0, result
            table = tablefmt.open(uri, storage_options=options(endpoint))
            assert table.version == writers * (appends + 1)
            assert int(table.scan().files()["rows"].to_numpy().sum()) == 3 * table.version
        self.results.setdefault(name, []).append(result)
        return float(result["per_s"])


def main() -> None:
    """Run all cases and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--appends", type=int, default=25, help="of each process")
    parser.add_argument("--round-trip", type=float, nargs="+", default=[0, 20], help="ms")
    parser.add_argument("--no-deltalake", action="store_true")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    server, contests = program(), Contests()
    compared: dict[str, dict[str, Any]] = {}
    folder = Path(tempfile.mkdtemp(prefix="tablefmt-bench-"))
    try:
        with served(server, folder) as near:
            for away, writers in itertools.product(given.round_trip, given.writers):
                far = delayed(near, away / 1000) if away else contextlib.nullcontext(near)
                with far as endpoint:
                    what = f"{writers} writers, +{away:g} ms"
                    names = ["tablefmt"] + ["deltalake"] * (not given.no_deltalake)

                    def case(
                        whose: str, at: str = endpoint, n: int = writers, what: str = what
                    ) -> Any:
                        name = f"{whose}, {what}"
                        return lambda: contests.run(whose, at, n, given.appends, name)

                    cases = {f"{whose}, {what}": case(whose) for whose in names}
                    figures = run_alternating(cases, given.rounds)
                    compared[what] = {"per_s": summary(figures)}
                    if len(names) > 1:
                        compared[what]["ratio"] = ratio(figures, *cases)
        if not given.no_save:
            payload = {"server": Path(server).name, "compared": compared}
            save("s3_contention", {**payload, "contests": contests.results})
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
