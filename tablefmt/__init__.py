"""tablefmt: a log-structured table format on object storage.

One commit is one atomic put-if-absent. There is no server, no catalog and no lock service.
`tablefmt.create`, `tablefmt.write`, `tablefmt.open`, `tablefmt.exists` and `tablefmt.drop` work
with Arrow data in this process. `tablefmt.spark`, `tablefmt.duckdb` and `tablefmt.polars` work with
these engines.

spec/architecture.md of the source says what each package does, and walks through one commit, one
scan and one MERGE.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from tablefmt import errors

if TYPE_CHECKING:
    from tablefmt.inspection.store_check import check_store
    from tablefmt.maintenance.maintain import maintain_uri as maintain
    from tablefmt.pipes.pipe import PipeRun, pipe
    from tablefmt.session.commit_result import Commit
    from tablefmt.table import Table, create, drop, exists, import_table, open, write

__version__ = "0.1.0"

__all__ = [
    "Commit",
    "PipeRun",
    "Table",
    "__version__",
    "check_store",
    "create",
    "drop",
    "errors",
    "exists",
    "import_table",
    "maintain",
    "open",
    "pipe",
    "write",
]


_HOMES = {
    "Commit": "tablefmt.session.commit_result:Commit",
    "PipeRun": "tablefmt.pipes.pipe:PipeRun",
    "Table": "tablefmt.table:Table",
    "check_store": "tablefmt.inspection.store_check:check_store",
    "create": "tablefmt.table:create",
    "drop": "tablefmt.table:drop",
    "exists": "tablefmt.table:exists",
    "import_table": "tablefmt.table:import_table",
    "maintain": "tablefmt.maintenance.maintain:maintain_uri",
    "open": "tablefmt.table:open",
    "pipe": "tablefmt.pipes.pipe:pipe",
    "write": "tablefmt.table:write",
}
"""Locations of the public names. pyarrow and other modules are imported on first use."""

_EXTRAS = ("duckdb", "polars", "spark")
"""Modules that each need an extra."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _EXTRAS:
        return importlib.import_module(f"tablefmt.{name}")
    if name not in _HOMES:
        from tablefmt.model.attribute_names import OF_PACKAGE, missing_attribute

        raise missing_attribute("module 'tablefmt'", name, OF_PACKAGE, __all__)
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__, *_EXTRAS})


logging.getLogger(__name__).addHandler(logging.NullHandler())
