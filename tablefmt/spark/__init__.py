"""Tables from PySpark, on a classic session: rows are written and scanned by Spark itself.

Importing this package imports no PySpark; `session`, `open`, `create`, `read` and `write` do.
"""

from __future__ import annotations

from tablefmt.spark.read import read
from tablefmt.spark.register import register, sync
from tablefmt.spark.session import session
from tablefmt.spark.table import SparkTable, create, open
from tablefmt.spark.write import write

__all__ = ["SparkTable", "create", "open", "read", "register", "session", "sync", "write"]
