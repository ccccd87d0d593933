"""Run documented operations of libraries without Spark, each in a folder of its own.

python -m tests.compat.documented.on_arrow [--record] [part of a name …]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.compat.documented.delta_rs import DELTA_RS
from tests.compat.documented.operation import Documentation, Operation, report
from tests.compat.documented.outcome import difference
from tests.compat.documented.py_iceberg import PY_ICEBERG
from tests.compat.documented.some_tables import make, replaced

DOCUMENTATIONS = (DELTA_RS, PY_ICEBERG)


def problem(documentation: Documentation, operation: Operation) -> str | None:
    """Run an operation. Return how its outcome differs; None if it does not."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        orders = make(folder, "shop" if documentation is PY_ICEBERG else "")
        text = replaced(documentation.changed(operation.text), folder, orders, "UTC")
        return difference(operation, text, {})


if __name__ == "__main__":
    sys.exit(report(DOCUMENTATIONS, problem, sys.argv[1:]))
