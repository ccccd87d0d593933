"""Values that tests compare: rows, planned files, files on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import tablefmt
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow

Case = TypeVar("Case")
Way = TypeVar("Way")


def in_turn(cases: Sequence[Case], ways: Sequence[Way]) -> Iterator[tuple[Case, Way]]:
    """Pair each case with one of several ways that shall do the same, and each way with a case."""
    return islice(zip(cycle(cases), cycle(ways)), max(len(cases), len(ways)))


def frame_from(spark: Any, given: pa.Table) -> Any:
    """A DataFrame of these rows; Spark alone would take wall-clock times for instants."""
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(json.dumps(to_spark_json(from_arrow(given.schema)))))
    return spark.createDataFrame(given, schema)


def rows_of(frame: Any, schema: pa.Schema | None = None) -> list[str]:
    """All rows of a DataFrame or Arrow table as sorted text: NaN equals itself, types count."""
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    if schema is not None:
        table = table.select(schema.names).cast(schema)
    return sorted(repr(tuple(row.items())) for row in table.to_pylist())


def scanned_files(frame: Any) -> int:
    """Return the number of data files that Spark plans to open for a query."""
    leaf = frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
    return int(leaf.selectedPartitions().totalNumberOfFiles())


def data_files(uri: str) -> list[str]:
    """Every file below data/, hidden ones too."""
    return sorted(str(p) for p in (Path(uri) / "data").rglob("*") if p.is_file())


def assert_no_other_files(uri: str) -> None:
    """Assert that the data files below a table are those of its newest version."""
    named = tablefmt.open(uri).context.view.snapshot().files["path"].to_pylist()
    assert sorted(data_files(uri)) == sorted(f"{uri}/{path}" for path in named)


def place_of(spark: Any, name: str) -> str:
    """Return the location that Spark's catalog has for a table."""
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    return str(described["Location"]).removeprefix("file:")


def everything(uri: str) -> list[str]:
    return sorted(str(p) for p in Path(uri).rglob("*") if p.is_file())


def strays(uri: str, before: list[str]) -> list[str]:
    """Return the files that a failed write changed, except orphans that it could not remove.

    Spark tells that a job failed before it has stopped all of its tasks, and one that still runs
    may leave a file after the clean-up. Such a file has to lie in the folder of a transaction that
    no entry names.

    Returns:
        Every file that is missing, new in the log, or new in a folder that an entry names.
    """
    found = set(everything(uri))
    logs = (Path(path).read_text("utf-8") for path in before if "/_log/" in path)
    named = "".join(logs)
    return [*(set(before) - found), *(p for p in found - set(before) if not _orphan(p, uri, named))]


def _orphan(path: str, uri: str, named: str) -> bool:
    budget, transaction, *_ = Path(path).relative_to(uri).parts
    return budget == "data" and len(transaction) == 32 and transaction not in named


def selected(spark: Any, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query, in order of their text."""
    return sorted(map(tuple, spark.sql(query).collect()), key=repr)
