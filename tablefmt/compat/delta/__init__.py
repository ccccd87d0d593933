"""The names of Delta's Python library for Spark, over tables of tablefmt.

`from tablefmt.compat.delta import DeltaTable` replaces the import from `delta` or `delta.tables`.
Version numbers are those of tablefmt: the first write of a new table is version 1.
"""

from __future__ import annotations

from tablefmt.compat.delta.delta_builders import (
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTableBuilder,
    IdentityGenerator,
    configure_spark_with_delta_pip,
)
from tablefmt.compat.delta.delta_names import NAMES
from tablefmt.compat.delta.delta_table import DeltaTable
from tablefmt.compat.translation import absent_name

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "configure_spark_with_delta_pip",
]

__getattr__ = absent_name(NAMES)
