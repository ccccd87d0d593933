"""Run documented operations in one Spark session, each with tables of its own.

python -m tests.compat.documented.on_spark [--record] [part of a name …]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import tablefmt.spark
from tablefmt.spark.columns.row_conditions import session_zone
from tests.compat.documented.delta_spark import DELTA
from tests.compat.documented.iceberg_spark import ICEBERG
from tests.compat.documented.operation import Documentation, Operation, report
from tests.compat.documented.outcome import difference
from tests.compat.documented.some_tables import make, replaced

DOCUMENTATIONS = (DELTA, ICEBERG)
UPDATES = "(2L, 'US', 25.0D), (5L, 'EU', 50.0D) AS u (id, region, amount)"


def problem(spark: Any, documentation: Documentation, operation: Operation) -> str | None:
    """Run an operation. Return how its outcome differs; None if it does not."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        orders = make(folder)
        text = replaced(documentation.changed(operation.text), folder, orders, session_zone(spark))
        for name in ("orders", "sales"):
            if name in text:
                spark.sql(f"CREATE TABLE {name} USING tablefmt OPTIONS (path '{folder / name}')")
        if "updates" in text:
            spark.sql(f"CREATE TEMPORARY VIEW updates AS SELECT * FROM VALUES {UPDATES}")
        before = dict(spark.conf.getAll)
        try:
            return difference(operation, text, {"spark": spark})
        finally:
            for query in spark.streams.active:
                query.stop()
            clean(spark, before)


def clean(spark: Any, before: dict[str, str]) -> None:
    """Set the settings of a session back, and drop its tables and views."""
    after = dict(spark.conf.getAll)
    for name in after.keys() - before.keys():
        spark.conf.unset(name)
    for name in before:
        if after.get(name) != before[name]:
            spark.conf.set(name, before[name])
    views = {row.viewName for row in spark.sql("SHOW VIEWS").collect()}
    for row in spark.sql("SHOW TABLES").collect():
        kind = "VIEW" if row.tableName in views else "TABLE"
        spark.sql(f"DROP {kind} IF EXISTS `{row.tableName}`")
    warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    shutil.rmtree(Path(warehouse) / "made", ignore_errors=True)


def main(parts: list[str]) -> int:
    """Run the operations in a session of its own, and print the ratio of each documentation."""
    with tempfile.TemporaryDirectory() as warehouse:
        settings = {
            "spark.sql.warehouse.dir": warehouse,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "America/New_York",
        }
        spark = tablefmt.spark.session("documented", master="local[2]", **settings)
        try:
            spark.sparkContext.setLogLevel("OFF")
            tablefmt.spark.register(spark)
            return report(DOCUMENTATIONS, partial(problem, spark), parts)
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
