"""Tables from PySpark: rows are written and scanned by Spark itself, in its tasks.

Where that cannot be (Spark Connect, a store that Hadoop cannot open) they go through Arrow in
Spark's Python workers. Importing this package imports no PySpark; its functions do.
"""

from __future__ import annotations

from tablefmt.spark.entry.pipe import pipe
from tablefmt.spark.entry.read import read
from tablefmt.spark.entry.register import register, sync
from tablefmt.spark.entry.session import session
from tablefmt.spark.entry.table import SparkTable, create, open
from tablefmt.spark.entry.write import write

__all__ = ["SparkTable", "create", "open", "pipe", "read", "register", "session", "sync", "write"]
