"""Read and write tables from PySpark. Spark's own tasks read and write the data files.

Where Spark cannot do that (Spark Connect, a store that Hadoop cannot open), rows go through Arrow
in Spark's Python workers. Importing this package does not import PySpark. Its functions do.
"""

from __future__ import annotations

from tablefmt.spark.entry.dataframe_io import read, write
from tablefmt.spark.entry.registration import register, sync
from tablefmt.spark.entry.spark_pipe import pipe
from tablefmt.spark.entry.spark_session import session
from tablefmt.spark.entry.spark_table import SparkTable, create, import_table, open

__all__ = [
    "SparkTable",
    "create",
    "import_table",
    "open",
    "pipe",
    "read",
    "register",
    "session",
    "sync",
    "write",
]
