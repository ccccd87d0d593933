"""Measure the cost of constraints for a write: a new table with none, with NOT NULL, with a CHECK.

    python -m benchmarks.constraints [--rows 6000000] [--rounds 5]

The table has four columns, all NOT NULL or none. One CHECK compares a column with a constant. The
other computes a value, for which Arrow needs DuckDB. Arrow writes rows from memory, Spark writes
rows that it generates. Only the append is timed. Before that, each table must refuse an invalid
row.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablefmt
import tablefmt.spark
from benchmarks.harness import ratio, run_alternating, save, summary
from tablefmt.errors import ConstraintViolationError

ARROW, SPARK = "arrow", "spark"
PLAIN = "plain"
TYPES = {"id": "BIGINT", "quantity": "INT", "price": "DOUBLE", "name": "STRING"}
MADE = {
    "id": "id",
    "quantity": "cast(id % 50 + 1 as int)",
    "price": "(id * 7919 % 1000003) / 100D",
    "name": "concat('part ', id % 10000)",
}
"""Columns by the row's number, as Spark's text. None is ever NULL, which Spark is not to know."""


@dataclass(frozen=True)
class Kind:
    """The constraints of a table."""

    not_null: bool = False
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks(self) -> bool:
        """Return True if a row can violate a constraint."""
        return self.not_null or bool(self.checks)

    @property
    def ddl(self) -> str:
        """The columns of the table."""
        end = " NOT NULL" if self.not_null else ""
        return ", ".join(f"{name} {kind}{end}" for name, kind in TYPES.items())


KINDS = {
    PLAIN: Kind(),
    "not null": Kind(not_null=True),
    "check": Kind(checks={"some": "quantity > 0"}),
    "computed check": Kind(checks={"worth": "quantity * price < 1000000"}),
}
MISFIT = {"id": [None], "quantity": [-1], "price": [-1e9], "name": ["none of them takes this"]}
"""A row that every kind but `plain` refuses."""

Table = Any
"""A table through Arrow or Spark: both have `append`."""


def arrow_rows(count: int) -> pa.Table:
    """The rows of `MADE`, in memory."""
    ids = np.arange(count, dtype=np.int64)
    names = pa.array([f"part {i}" for i in range(10_000)])
    columns = {
        "id": ids,
        "quantity": (ids % 50 + 1).astype(np.int32),
        "price": (ids * 7919 % 1_000_003) / 100,
        "name": names.take(pa.array(ids % 10_000)),
    }
    return pa.table(columns)


def spark_rows(spark: Any, count: int) -> Any:
    """The same rows, made by Spark while it writes them."""
    return spark.range(0, count, numPartitions=4).selectExpr(
        *(f"if(id < 0, null, {made}) AS {name}" for name, made in MADE.items())
    )


class Writes:
    """A write of each kind, on either engine, each time into a new table below one folder."""

    def __init__(self, spark: Any, rows: int, root: Path) -> None:
        self.spark, self.rows, self.root = spark, rows, root
        self.data = {ARROW: arrow_rows(rows), SPARK: spark_rows(spark, rows)}
        misfit = pa.table(MISFIT, pa.schema([(n, self.data[ARROW][n].type) for n in TYPES]))
        ddl = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        self.misfits = {
            ARROW: misfit,
            SPARK: spark.createDataFrame([tuple(misfit.to_pylist()[0].values())], ddl),
        }

    def made(self, engine: str, kind: Kind) -> Table:
        """Create an empty table of this kind."""
        uri = str(self.root / "table")
        shutil.rmtree(uri, ignore_errors=True)
        table = tablefmt.create(uri, kind.ddl)
        for name, condition in kind.checks.items():
            table.alter.add_constraint(name, condition)
        return table if engine == ARROW else tablefmt.spark.open(self.spark, uri)

    def refuses(self, engine: str, kind: Kind) -> bool:
        """Return True if the table refuses an invalid row."""
        try:
            self.made(engine, kind).append(self.misfits[engine])
        except ConstraintViolationError:
            return True
        return False

    def case(self, engine: str, kind: Kind) -> Callable[[], float]:
        """Return the seconds of one append."""

        def run() -> float:
            table = self.made(engine, kind)
            start = time.perf_counter()
            commit = table.append(self.data[engine])
            seconds = time.perf_counter() - start
            assert commit.metrics["numOutputRows"] == self.rows, commit
            return seconds

        return run


def run(rows: int, rounds: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="constraints"))
    spark = tablefmt.spark.session("benchmark", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        writes = Writes(spark, rows, root)
        cases = {}
        for engine in (ARROW, SPARK):
            for name, kind in KINDS.items():
                assert writes.refuses(engine, kind) == kind.asks, (engine, name)
                cases[f"{engine} {name}"] = writes.case(engine, kind)
        figures = run_alternating(cases, rounds, warm_up=1)
    finally:
        spark.stop()
        shutil.rmtree(root)
    ratios = {
        f"{engine} {name}": ratio(figures, f"{engine} {name}", f"{engine} {PLAIN}")
        for engine in (ARROW, SPARK)
        for name in KINDS
        if name != PLAIN
    }
    found = {"rows": rows, "master": "local[2]", "ratios": ratios, "seconds": summary(figures)}
    save("constraints", found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000, help="100000 to try it")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    run(arguments.rows, arguments.rounds)
