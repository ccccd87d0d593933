"""DataFrames of either kind of session, and what PySpark's types are called here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.types import DataType
else:
    # PySpark is not imported until it is needed.
    Column = DataFrame = DataType = Session = Any

__all__ = ["Column", "DataFrame", "DataType", "Functions", "JavaObject", "Session", "functions_of"]

Functions = Any
"""The module `pyspark.sql.functions`, or its namesake for Spark Connect."""

JavaObject = Any
"""What py4j gives for an object of the JVM, whose class no Python type tells."""


def functions_of(frame: DataFrame | Session) -> Functions:
    """`pyspark.sql.functions` for the kind of session that a DataFrame is of.

    One process may have sessions of both kinds; the plain module serves one of them.
    """
    connect = type(frame).__module__.startswith("pyspark.sql.connect")
    return importlib.import_module(f"pyspark.sql{'.connect' if connect else ''}.functions")
