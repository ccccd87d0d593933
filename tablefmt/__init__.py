"""tablefmt: a log-structured table format on object storage.

One commit is one atomic put-if-absent; there is no server, no catalog, no lock service.
`tablefmt.create`, `tablefmt.write`, `tablefmt.open`, `tablefmt.exists` and `tablefmt.drop` work
with Arrow data in this process; `tablefmt.spark` works with PySpark, `tablefmt.duckdb` and
`tablefmt.polars` with those.
"""

from __future__ import annotations

import gc
import importlib
import logging
from typing import Any

_collects = gc.isenabled()
# Modules stay: to look for garbage among them is an eighth of the time that it takes.
gc.disable()
try:
    from tablefmt import errors
    from tablefmt.maintenance.maintain import maintain_uri as maintain
    from tablefmt.pipes.pipe import PipeRun, pipe
    from tablefmt.session.receipt import Commit
    from tablefmt.table import Table, create, drop, exists, open, write
finally:
    if _collects:
        gc.enable()

__version__ = "0.1.0"

__all__ = [
    "Commit",
    "PipeRun",
    "Table",
    "__version__",
    "create",
    "drop",
    "errors",
    "exists",
    "maintain",
    "open",
    "pipe",
    "write",
]


def __getattr__(name: str) -> Any:
    """`tablefmt.spark`, `.duckdb` and `.polars` on first use: each needs an extra."""
    if name in ("duckdb", "polars", "spark"):
        return importlib.import_module(f"tablefmt.{name}")
    raise AttributeError(f"module 'tablefmt' has no attribute {name!r}")


logging.getLogger(__name__).addHandler(logging.NullHandler())
