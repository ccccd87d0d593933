"""Names of the module `pyiceberg.table`."""

from __future__ import annotations

from tablefmt.compat.pyiceberg.pyiceberg_names import NAMES
from tablefmt.compat.pyiceberg.pyiceberg_table import DataScan, Table, UpsertResult
from tablefmt.compat.translation import absent_name

__all__ = ["DataScan", "Table", "UpsertResult"]

__getattr__ = absent_name(NAMES)
