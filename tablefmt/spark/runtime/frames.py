"""DataFrames of either kind of session."""

from __future__ import annotations

import importlib
from typing import Any


def functions_of(frame: Any) -> Any:
    """`pyspark.sql.functions` for the kind of session that a DataFrame is of.

    One process may have sessions of both kinds; the plain module serves one of them.
    """
    connect = type(frame).__module__.startswith("pyspark.sql.connect")
    return importlib.import_module(f"pyspark.sql{'.connect' if connect else ''}.functions")
