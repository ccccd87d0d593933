"""Count the files that a point query opens after 100 appends to a clustered table.

    python -m benchmarks.clustering [--appends 100] [--rows 20000] [--every 10] [--queries 200]

Each append has rows with random values, so it overlaps every other one. `maintain` runs in between.
The same appends go to a table without an order, to one without maintenance, and to one that is
clustered once at the end. The counts do not depend on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import tablefmt
from benchmarks.harness import save

BY = ("customer", "product")
LARGEST = 1_000_000
WHO = {
    "clustered": "the order is set; `maintain` in between",
    "not clustered": "no order; `maintain` in between",
    "no maintenance": "the order is set; no `maintain`",
    "clustered once": "no `maintain`; `cluster` of everything at the end",
}


def rows_of(number: int, rows: int) -> pa.Table:
    """Return the rows of an append: two random keys and a value."""
    random = np.random.default_rng(number)
    return pa.table(
        {
            "customer": random.integers(0, LARGEST, rows),
            "product": random.integers(0, LARGEST, rows),
            "amount": random.random(rows),
        }
    )


def made(folder: Path, who: str, args: argparse.Namespace) -> tuple[tablefmt.Table, float]:
    """Return a table after the appends, and the rows rewritten for each row appended."""
    table = tablefmt.create(
        str(folder / who.replace(" ", "-")),
        rows_of(0, 1).schema,
        cluster_by=() if who == "not clustered" else BY,
        properties={"targetFileSize": str(args.size)},
    )
    for number in range(args.appends):
        table.append(rows_of(number, args.rows))
        if who in ("clustered", "not clustered") and (number + 1) % args.every == 0:
            table.maintain()
    if who == "clustered once":
        table.cluster()
    rewritten = sum(
        int(dict(row["operationMetrics"] or ()).get("numOutputRows", 0))
        for row in table.history().to_pylist()
        if row["operation"] in ("CLUSTER", "OPTIMIZE")
    )
    return table, rewritten / (args.appends * args.rows)


def opened(table: tablefmt.Table, columns: tuple[str, ...], queries: int) -> Iterator[int]:
    """Yield the number of files that each point query opens."""
    random = np.random.default_rng(0)
    for _ in range(queries):
        point = " AND ".join(f"{name} = {random.integers(0, LARGEST)}" for name in columns)
        yield table.scan(where=point).files().num_rows


def measured(table: tablefmt.Table, queries: int) -> dict[str, float]:
    """Return the files of the table, and those that queries of each kind open."""
    kinds = {"both columns": BY, **{name: (name,) for name in BY}}
    found = {"files of the table": float(table.scan().files().num_rows)}
    for kind, columns in kinds.items():
        counts = list(opened(table, columns, queries))
        found[f"a point of {kind}, mean"] = float(np.mean(counts))
        found[f"a point of {kind}, most"] = float(max(counts))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=10, help="appends between two maintenances")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--size", type=int, default=1 << 20, help="desired bytes of a file")
    args = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for who in WHO:
            table, rewritten = made(Path(folder), who, args)
            found = {**measured(table, args.queries), "rows rewritten for each row": rewritten}
            print(who, found, flush=True)
            for name, figure in found.items():
                figures.setdefault(name, {})[who] = figure
    save("clustering", {"options": vars(args), "contestants": WHO, "opened": figures})


if __name__ == "__main__":
    main()
