"""The same names for imports from `delta.tables`."""

from __future__ import annotations

from tablefmt.compat.delta.delta_builders import (
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTableBuilder,
    IdentityGenerator,
)
from tablefmt.compat.delta.delta_table import DeltaTable

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
