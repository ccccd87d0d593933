"""Measure a dry run of vacuum with as many removed files as live ones, against deltalake.

The objects exist on local disk and are empty. An entry of a month ago removed half of them. Each
figure comes from a separate process that has not opened the table before.

python -m benchmarks.vacuum [--files 100000] [--rounds 5] [--no-deltalake]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tablefmt
from benchmarks.checkpoints import COLUMNS, described
from benchmarks.harness import in_own_process, ratio, run_alternating, save, summary
from benchmarks.state import following
from tablefmt.commit.environment import SYSTEM
from tablefmt.log.codec import decode
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import write_overflow
from tablefmt.operations.create import create
from tablefmt.store.location import open_store

EACH = 50_000
"""Files of a commit."""
MONTH = 31 * 86_400


def touched(root: Path, paths: list[str], at: float) -> None:
    """Create empty files with a given modification time."""
    for folder in {os.path.dirname(path) for path in paths}:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path in paths:
        os.close(os.open(root / path, os.O_CREAT | os.O_WRONLY))
        os.utime(root / path, (at, at))


def build(uri: str, files: int) -> None:
    """Commit twice as many files a month ago, and an entry that removes the first half."""
    now = time.time()
    store = open_store(uri, {})
    long_ago = replace(SYSTEM, now_us=lambda: int((now - MONTH) * 1e6))
    create(store, ", ".join(f"c{i} BIGINT" for i in range(1, COLUMNS + 1)) + ", p INT",
           partition_by=["p"], environment=long_ago)  # fmt: skip
    stored = decode(store.get(entry_key(0)), 0)
    chance = np.random.default_rng(1)
    for known in range(0, 2 * files, EACH):
        version = known // EACH + 1
        ids = np.arange(known, min(known + EACH, 2 * files))
        rows = described(ids, version, 2 * files, chance)
        touched(Path(uri), rows["path"].to_pylist(), now - MONTH)
        side = write_overflow(store, f"{version:032x}", rows)
        count = known + len(ids)
        totals = replace(stored.entry.totals, files=count, rows=count * 1000,
                         bytes=count * 40_000, next_id=count + 1)  # fmt: skip
        stored = following(store, stored, add=side, totals=totals)
    totals = replace(stored.entry.totals, files=files, rows=files * 1000, bytes=files * 40_000)
    following(store, stored, remove=list(range(1, files + 1)), totals=totals)


def build_delta(uri: str, files: int) -> None:
    """Write the same table as a Delta log, in the same number of commits."""
    ago = int((time.time() - MONTH) * 1000)
    names = [f"c{i}" for i in range(1, COLUMNS + 1)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    fields.append({"name": "p", "type": "integer", "nullable": True, "metadata": {}})
    definition = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": ago,
    }
    log = Path(uri, "_delta_log")
    log.mkdir(parents=True)
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": definition}]
    paths = [f"p={at * 1000 // (2 * files)}/{at:016x}.parquet" for at in range(2 * files)]
    stats = json.dumps({"numRecords": 1000, "minValues": dict.fromkeys(names, 0),
                        "maxValues": dict.fromkeys(names, 1 << 40),
                        "nullCount": dict.fromkeys(names, 0)})  # fmt: skip

    def commits() -> Iterator[list[Any]]:
        yield first
        for known in range(0, 2 * files, EACH):
            yield [
                {"add": {"path": path, "partitionValues": {"p": path[2 : path.index("/")]},
                         "size": 40_000, "modificationTime": ago, "dataChange": True,
                         "stats": stats}}
                for path in paths[known : known + EACH]
            ]  # fmt: skip
        yield [
            {"remove": {"path": path, "deletionTimestamp": ago, "dataChange": True}}
            for path in paths[:files]
        ]

    for version, actions in enumerate(commits()):
        text = "\n".join(json.dumps(action) for action in actions)
        (log / f"{version:020d}.json").write_text(text + "\n")
    touched(Path(uri), paths, time.time() - MONTH)


def planned(kind: str, uri: str, files: int) -> float:
    """Return the seconds from opening to the plan; check that it has exactly the removed files."""
    if kind == "tablefmt":
        start = time.perf_counter()
        found = tablefmt.open(uri).vacuum(dry_run=True).files.num_rows
    else:
        import deltalake

        start = time.perf_counter()
        found = len(deltalake.DeltaTable(uri).vacuum(dry_run=True, full=True))
    seconds = time.perf_counter() - start
    if found != files:
        raise RuntimeError(f"{kind} would remove {found} files instead of {files}")
    return seconds


def main() -> None:
    """Build the tables, measure alternating, save the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-deltalake", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--uri", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(planned(given.one, given.uri, given.files)))
        return
    with tempfile.TemporaryDirectory(prefix="vacuum-") as folder:
        builders = {"tablefmt": build, "deltalake": build_delta}
        if given.no_deltalake:
            del builders["deltalake"]
        for kind, builder in builders.items():
            builder(f"{folder}/{kind}", given.files)
        cases = {
            kind: lambda kind=kind: in_own_process(
                "vacuum", kind, "--uri", f"{folder}/{kind}", "--files", given.files
            )
            for kind in builders
        }
        figures = run_alternating(cases, given.rounds, warm_up=1)
    ratios = {} if given.no_deltalake else {"plan": ratio(figures, "tablefmt", "deltalake")}
    save("vacuum", {"files": given.files, "seconds": summary(figures), "ratios": ratios})


if __name__ == "__main__":
    main()
