"""Tables from PySpark: rows are written and scanned by Spark itself, in its tasks.

Where that cannot be (Spark Connect, a store that Hadoop cannot open) they go through Arrow in
Spark's Python workers. Importing this package imports no PySpark; its functions do.
"""

from __future__ import annotations

from tablefmt.spark.entry.dataframe_io import read, write
from tablefmt.spark.entry.registration import register, sync
from tablefmt.spark.entry.spark_pipe import pipe
from tablefmt.spark.entry.spark_session import session
from tablefmt.spark.entry.spark_table import SparkTable, create, open

__all__ = ["SparkTable", "create", "open", "pipe", "read", "register", "session", "sync", "write"]
