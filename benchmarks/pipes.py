"""Measure pipes by Arrow: the first run against a plain copy, one new row against its append.

python -m benchmarks.pipes [--rows 4000000] [--rounds 5]

Four programs copy a table of four columns into a new table each time: `tablefmt.write(scan)`, a
pipe, a pipe with a function, and a pipe with keys. Then the source gets one row at a time. A pipe
and a pipe with keys copy it, and an append writes the same row to the target directly.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablefmt
from benchmarks.harness import ratio, run_alternating, save, summary


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="tablefmt-pipes-"))
    try:
        source = tablefmt.create(work / "source", data(0).schema)
        source.append(data(given.rows))
        figures = {**first(work, source, given.rounds), **later(work, source, given.rounds)}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ratios = {
        f"{name} over {theirs}": ratio(figures, name, theirs)
        for names, theirs in (
            (("first", "first, function", "first, keys"), "copy"),
            (("one row", "one row, keys", "no new rows"), "append"),
        )
        for name in names
    }
    save("pipes", {"rows": given.rows, "seconds": summary(figures), "ratios": ratios})


def data(rows: int, start: int = 0) -> pa.Table:
    """Return rows with ids from `start` on."""
    chance = np.random.default_rng(start)
    words = np.char.add("word ", chance.integers(0, 5_000, rows).astype(str))
    return pa.table(
        {
            "id": np.arange(start, start + rows),
            "amount": chance.normal(size=rows),
            "place": chance.integers(0, 1_000, rows),
            "word": pa.array(words, pa.string()),
        }
    )


def first(work: Path, source: tablefmt.Table, rounds: int) -> dict[str, list[float]]:
    """Measure copies of all rows into a new table each time."""
    numbers = itertools.count()

    def place() -> str:
        return str(work / f"first-{next(numbers)}")

    works: dict[str, Callable[[], Any]] = {
        "copy": lambda: tablefmt.write(source.scan(), place()),
        "first": lambda: tablefmt.pipe(source).into(place()),
        "first, function": lambda: tablefmt.pipe(source, transform=lambda t: t).into(place()),
        "first, keys": lambda: tablefmt.pipe(source).into(place(), keys="id"),
    }
    return run_alternating({name: partial(seconds, work) for name, work in works.items()}, rounds)


def seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of the work."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def later(work: Path, source: tablefmt.Table, rounds: int) -> dict[str, list[float]]:
    """Measure one new row at a time: by pipes, and by an append."""
    plain, keyed = str(work / "plain"), str(work / "keyed")
    tablefmt.pipe(source).into(plain)
    tablefmt.pipe(source).into(keyed, keys="id")
    one, two = tablefmt.open(plain), tablefmt.open(keyed)
    ids = itertools.count(1 << 40)
    figures: dict[str, list[float]] = {}
    for _ in range(4 * rounds):
        row = data(1, next(ids))
        source.append(row)
        works: dict[str, Callable[[], Any]] = {
            "one row": lambda: tablefmt.pipe(source).into(one),
            "one row, keys": lambda: tablefmt.pipe(source).into(two, keys="id"),
            "no new rows": lambda: tablefmt.pipe(source).into(one),
            "append": partial(one.append, row),
        }
        for name, run in works.items():
            figures.setdefault(name, []).append(seconds(run))
    return figures


if __name__ == "__main__":
    main()
