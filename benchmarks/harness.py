"""Shared parts of benchmarks: alternating rounds, so that drift affects every case, and results."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

CACHE = Path(tempfile.gettempdir()) / "tablefmt-benchmarks"
"""Default folder for generated or fetched data, kept between runs."""

PACKAGES = ("tablefmt", "pyarrow", "pyspark", "deltalake", "orjson", "s3fs", "numpy")


def run_alternating(
    cases: Mapping[str, Callable[[], float | None]], rounds: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Run the cases in turn, A B C A B C …

    Args:
        cases: by name. A case that returns a number measured itself; otherwise its seconds count.
        rounds: counted rounds.
        warm_up: rounds before them that are not.

    Returns:
        By name, one figure a round.
    """
    figures: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(warm_up + rounds):
        for name, case in cases.items():
            start = time.perf_counter()
            measured = case()
            seconds = time.perf_counter() - start
            if turn >= warm_up:
                figures[name].append(seconds if measured is None else float(measured))
                print(f"{name}: {figures[name][-1]:.3f}", flush=True)
    return figures


def with_processor_time(
    cases: Mapping[str, Callable[[], object]], clock: Callable[[], float]
) -> tuple[dict[str, Callable[[], None]], dict[str, list[float]]]:
    """Measure the processor time of cases besides their seconds.

    Args:
        cases: by name.
        clock: processor seconds so far.

    Returns:
        The cases to run, and by name the processor seconds of each run, warm-up runs included.
    """
    spent: dict[str, list[float]] = {name: [] for name in cases}

    def measuring(name: str, case: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            start = clock()
            case()
            spent[name].append(clock() - start)

        return run

    return {name: measuring(name, case) for name, case in cases.items()}, spent


def spark_clock(spark: Any) -> Callable[[], float]:
    """Return a clock of the processor seconds of this process and of the session's JVM, in which
    its executors run too (`local[N]`)."""
    process = spark._jvm.java.lang.ProcessHandle.current().pid()
    tick = os.sysconf("SC_CLK_TCK")

    def seconds() -> float:
        # After the name of the program, which may have spaces: user time is field 14.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / tick + time.process_time()

    return seconds


def in_own_process(
    module: str, one: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> Any:
    """Run a benchmark for one of its kinds in a separate process and JVM; return its result.

    Args:
        module: a program of this folder that takes `--one KIND`, and prints JSON as its last line:
            Spark's launcher writes to the standard output too.
        one: the kind.
        arguments: of the program.
        environment: what is set for it besides.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", "--one", one, *map(str, arguments)]
    told = {**os.environ, **(environment or {})}
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=told)
    return json.loads(run.stdout.splitlines()[-1])


def formats_in_turn(
    module: str, formats: Sequence[str], rounds: int, *arguments: object
) -> tuple[dict[str, list[dict[str, list[float]]]], dict[str, dict[str, list[float]]]]:
    """Run a process per format and round, alternating.

    Args:
        module: as in `in_own_process`; it returns the figures of each case.
        formats: the kinds.
        rounds: number of rounds.
        arguments: of the program.

    Returns:
        By format, the result of each round; and the figures of all rounds by case.
    """
    found: dict[str, list[dict[str, list[float]]]] = {kind: [] for kind in formats}
    for _ in range(rounds):
        for kind in formats:
            one = in_own_process(module, kind, *arguments)
            found[kind].append(one)
            print(kind, {case: f"{min(values):.3f}" for case, values in one.items()}, flush=True)
    joined = {
        kind: {case: [each for one in all_ for each in one[case]] for case in all_[0]}
        for kind, all_ in found.items()
    }
    return found, joined


def peak_mb(work: Callable[[], object]) -> float:
    """Return the MB of memory above the start while the work runs."""
    start, most, ended = _resident_mb(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.005):
            most = max(most, _resident_mb() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    ended.set()
    watcher.join()
    return most


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def tpch_rows(folder: Path, scale: str, *arguments: str) -> Path:
    """Return a folder with rows of TPC-H in Parquet files; tpchgen-cli creates missing ones."""
    if not folder.exists():
        beside = Path(sys.executable).with_name("tpchgen-cli")
        program = str(beside) if beside.exists() else "tpchgen-cli"
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        command = [program, "parquet", "-s", scale, "-q", *arguments, "-o", str(unfinished)]
        subprocess.run(command, check=True)
        unfinished.rename(folder)
    return folder


def summary(figures: Mapping[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Return minimum, median, maximum and all figures of each case."""
    return {
        name: {
            "min": min(values),
            "median": statistics.median(values),
            "max": max(values),
            "all": values,
        }
        for name, values in figures.items()
    }


def ratio(figures: Mapping[str, list[float]], ours: str, theirs: str) -> dict[str, float]:
    """Return ours over theirs, round by round: minimum, median, maximum."""
    pairs = [a / b for a, b in zip(figures[ours], figures[theirs], strict=True)]
    return {"min": min(pairs), "median": statistics.median(pairs), "max": max(pairs)}


def machine() -> dict[str, Any]:
    """Return the machine: cores, memory, versions, load."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "versions": versions,
    }


def save(name: str, payload: Mapping[str, Any]) -> Path:
    """Save a result under benchmarks/results/, and print it."""
    now = datetime.now(timezone.utc)
    document = {"benchmark": name, "at": now.isoformat(), "machine": machine(), **payload}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))
    return path
