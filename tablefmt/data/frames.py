"""Arrow tables as frames of libraries that are not there in every installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablefmt.errors import UnsupportedFeatureError


def to_pandas(rows: pa.Table, arguments: Mapping[str, Any]) -> Any:
    """A pandas frame; `arguments` are of pyarrow's to_pandas.

    Raises:
        UnsupportedFeatureError: pandas is not installed.
    """
    try:
        return rows.to_pandas(**arguments)
    except ModuleNotFoundError as error:
        raise missing_extra("pandas", error) from None


def to_polars(rows: pa.Table) -> Any:
    """A polars DataFrame; columns that polars keeps as Arrow does are not copied.

    Raises:
        UnsupportedFeatureError: polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise missing_extra("polars", error) from None
    return polars.from_arrow(rows, rechunk=False)


def missing_extra(extra: str, error: ModuleNotFoundError) -> UnsupportedFeatureError:
    """What tells how to install a library that is asked for: the extra is called like it."""
    return UnsupportedFeatureError(
        f"{error.name or extra} is not installed: pip install 'tablefmt[{extra}]'",
        [f"extra:{extra}"],
    )
