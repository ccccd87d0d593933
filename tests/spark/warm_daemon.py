"""Spark's daemon of Python workers, which has what they import. A worker is a fork of it.

A worker of Spark's own daemon imports PyArrow and the package anew, which takes a second.
"""

from __future__ import annotations

import runpy
from contextlib import suppress

import pandas  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.sql.worker.lookup_data_sources
import pyspark.worker  # noqa: F401

# A Python that lacks the package says so when a worker looks for it.
with suppress(ImportError):
    import tablefmt.spark.entry.python_source
    import tablefmt.spark.entry.python_writer  # noqa: F401

if __name__ == "__main__":
    runpy.run_module("pyspark.daemon", run_name="__main__")
