"""Measure the first DELETE, UPDATE or MERGE of a process without Spark, against deltalake.

    python -m benchmarks.arrow_dml_fresh [--rows 2000000] [--files 8] [--rounds 7] [--only merge_1%]

Every statement runs in a separate Python process, on a fresh copy of the same table (files are
linked, not copied), and the peers alternate. A process reports two times. `import` is the import
of the package alone. `statement` is the time from opening the table to the commit, with all imports
on the way. The source of a MERGE is read between the two and counts for neither.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OURS, THEIRS = "tablefmt", "deltalake"
EVERY = 100
"""One of this many rows is changed."""

KEYS = 10
FAR = 1_000_000_000
"""Added to a key to get a key that no row has."""

UPDATES = {
    "update_1%": ({"v": "v + 1"}, f"id % {EVERY} = 7"),
    "update_10_keys": ({"v": "v + 1"}, "keys"),
}
DELETES = {"delete_1%": f"id % {EVERY} = 7"}
MERGES = ("merge_1%", "merge_1%_sum", "merge_10_keys")
STATEMENTS = (*DELETES, *UPDATES, *MERGES)


def keys_of(rows: int) -> list[int]:
    """Return keys spread over the table."""
    return [rows // KEYS * at + 7 for at in range(KEYS)]


def write_both(root: Path, count: int, files: int) -> None:
    """Write the rows as a table of each peer, and the sources of the MERGEs."""
    import deltalake
    import numpy as np
    import pyarrow as pa
    import pyarrow.feather

    import tablefmt

    chance = np.random.default_rng(7)
    ids = np.arange(count)
    rows = pa.table(
        {
            "id": ids,
            "region": np.array(["EU", "US", "APAC", "LATAM"])[ids % 4],
            "v": chance.integers(0, 1_000_000, count),
            "amount": chance.random(count) * 1000,
            "note": pa.array([f"note {at % 5003} of row {at}" for at in range(count)]),
        }
    )
    step = -(-count // files)
    parts = [rows.slice(start, step) for start in range(0, count, step)]
    ours = tablefmt.create(root / OURS, rows.schema)
    with ours.transaction() as txn:
        for part in parts:
            txn.append(part)
    for part in parts:
        deltalake.write_deltalake(str(root / THEIRS), part, mode="append")
    for name in MERGES:
        chosen = keys_of(count) if "keys" in name else np.arange(7, count, EVERY)
        source = rows.take(pa.array(chosen))
        new_keys = np.where(np.arange(len(chosen)) % 10 == 0, FAR, 0) + np.asarray(chosen)
        source = source.set_column(0, "id", pa.array(new_keys))
        pyarrow.feather.write_feather(source, root / f"{name}.arrow", compression="uncompressed")


def statement(which: str, name: str, folder: str, rows: int) -> dict[str, float]:
    """Run one statement in this process before any import, and print the seconds."""
    start = time.perf_counter()
    if which == OURS:
        import tablefmt
    else:
        import deltalake
    imported = time.perf_counter()
    source = _source(Path(folder).parent / f"{name}.arrow") if name in MERGES else None
    listed = ", ".join(map(str, keys_of(rows)))
    begin = time.perf_counter()
    table: Any = tablefmt.open(folder) if which == OURS else deltalake.DeltaTable(folder)
    if name in DELETES:
        table.delete(DELETES[name])
    elif name in UPDATES:
        values, where = UPDATES[name]
        where = f"id IN ({listed})" if where == "keys" else where
        if which == OURS:
            table.update(values, where)
        else:
            table.update(updates=values, predicate=where)
    else:
        sides = {} if which == OURS else {"source_alias": "s", "target_alias": "t"}
        builder = table.merge(source, "t.id = s.id", **sides)
        if name.endswith("sum"):
            builder = builder.when_matched_update({"v": "t.v + s.v"})
        else:
            builder = builder.when_matched_update_all()
        builder.when_not_matched_insert_all().execute()
    end = time.perf_counter()
    return {
        "import": imported - start,
        "statement": end - begin,
        "all": end - begin + imported - start,
    }


def _source(file: Path) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        return pa.ipc.open_file(mapped).read_all()


def measured(root: Path, which: str, name: str, rows: int) -> dict[str, float]:
    """Run one statement in a separate process."""
    folder = root / "copy"
    shutil.copytree(root / which, folder, copy_function=os.link)
    command = [sys.executable, "-m", "benchmarks.arrow_dml_fresh", "--rows", str(rows)]
    command += ["--one", which, name, str(folder)]
    # Modules are compiled once, as an installer does it.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    shutil.rmtree(folder)
    seconds: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return seconds


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="statements, commas between; all of them")
    parser.add_argument("--tables", type=Path, help="a folder that keeps the tables between runs")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        which, name, folder = given.one
        print(json.dumps(statement(which, name, folder, given.rows)))
        return
    # Not before: what a statement's process imports is what is measured.
    from benchmarks.harness import ratio, save, summary

    root = given.tables or Path(tempfile.mkdtemp(prefix="arrow_dml_fresh"))
    if not (root / THEIRS).exists():
        root.mkdir(exist_ok=True)
        write_both(root, given.rows, given.files)
    chosen = given.only.split(",") if given.only else list(STATEMENTS)
    figures: dict[str, list[float]] = {}
    for name in chosen:
        for turn in range(1 + given.rounds):
            for which in (OURS, THEIRS):
                for kind, seconds in measured(root, which, name, given.rows).items():
                    if turn:
                        figures.setdefault(f"{name} {which} {kind}", []).append(seconds)
        print(
            name,
            *(
                f"{f.removeprefix(name)} {min(s):.3f}"
                for f, s in figures.items()
                if f.startswith(f"{name} ")
            ),
        )
    if not given.tables:
        shutil.rmtree(root)
    ratios = {
        f"{name} {kind}": ratio(figures, f"{name} {THEIRS} {kind}", f"{name} {OURS} {kind}")
        for name in chosen
        for kind in ("statement", "all")
    }
    save(
        "arrow_dml_fresh",
        {
            "rows": given.rows,
            "files": given.files,
            "seconds": summary(figures),
            "times_as_fast": ratios,
        },
    )


if __name__ == "__main__":
    main()
