"""Conversions of Arrow tables to data frames of optional libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablefmt.errors import UnsupportedFeatureError


def to_pandas(rows: pa.Table, arguments: Mapping[str, Any]) -> Any:
    """Return a pandas DataFrame; `arguments` go to pyarrow's to_pandas.

    Raises:
        UnsupportedFeatureError: pandas is not installed.
    """
    try:
        return rows.to_pandas(**arguments)
    except ModuleNotFoundError as error:
        raise missing_extra("pandas", error) from None


def to_polars(rows: pa.Table) -> Any:
    """Return a polars DataFrame. Columns with the same memory layout are not copied.

    Raises:
        UnsupportedFeatureError: polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise missing_extra("polars", error) from None
    return polars.from_arrow(rows, rechunk=False)


def missing_extra(extra: str, error: ModuleNotFoundError) -> UnsupportedFeatureError:
    """Return the error for a missing library. The extra has the library's name."""
    return UnsupportedFeatureError(
        f"{error.name or extra} is not installed. Run: pip install 'tablefmt[{extra}]'",
        [f"extra:{extra}"],
    )
