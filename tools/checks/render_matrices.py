#!/usr/bin/env python3
"""Render the published matrices as a page: spec/matrices/*.json -> spec/matrices/README.md.

`python tools/checks/render_matrices.py` writes the page; `--check` tells whether it is up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MATRICES = Path(__file__).resolve().parents[2] / "spec" / "matrices"
PAGE = "README.md"

HEAD = """# The matrices

Rendered from the JSON files beside it by `tools/checks/render_matrices.py`; do not edit.
The rules are in [conflicts.md](../conflicts.md), CFL-2 and CFL-3.
The earlier of two commits is the row, the later the column.
"""


def table(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {corner} | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines)


def by_scope(published: Mapping[str, Any]) -> str:
    """Return the matrix of granularity `transaction`."""
    cells = published["earlier_then_later"]
    columns = list(next(iter(cells.values())))
    grid = table("earlier, later", columns, {a: [r[c] for c in columns] for a, r in cells.items()})
    outcomes = "\n".join(f"- **{name}**: {text}" for name, text in published["outcomes"].items())
    notes = "\n".join(f"- {note}" for note in published["notes"])
    head = f"## Granularity `transaction`\nFor {published['scope']}."
    return "\n\n".join([head, grid, outcomes, notes])


def verdict(cell: Mapping[str, Any]) -> str:
    """Return a matrix rule in a few words."""
    if cell["conflict"] == "never" or cell["exception"] is None:
        return "never"
    names = [word for word in cell["exception"].replace(",", " ").split() if word[:1] == "C"]
    return "if: " + ", ".join(name.removesuffix("Exception") for name in names)


def by_rows(published: Mapping[str, Any]) -> str:
    """Return a table for each profile and isolation level of granularities `file` and `row`."""
    grids: dict[tuple[str, str], dict[str, dict[str, Mapping[str, Any]]]] = {}
    for cell in published["cells"]:
        grid = grids.setdefault((cell["profile"], cell["isolation"]), {})
        grid.setdefault(cell["earlier"], {})[cell["later"]] = cell
    parts = ["## Granularities `file` and `row`"]
    parts += [f"- **{name}**: {text}" for name, text in published["operations"].items()]
    for (profile, isolation), grid in grids.items():
        columns = list(grid)
        rows = {a: [verdict(later[c]) for c in columns] for a, later in grid.items()}
        parts.append(f"\n### {profile}, {isolation}\n")
        parts.append(table("earlier, later", columns, rows))
    return "\n".join(parts)


def page(folder: Path = MATRICES) -> str:
    """Return the whole page."""
    transaction = json.loads((folder / "transaction.json").read_text(encoding="utf-8"))
    rows = json.loads((folder / "file_and_row.json").read_text(encoding="utf-8"))
    return "\n".join([HEAD, by_scope(transaction), "", by_rows(rows), ""])


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    target = MATRICES / PAGE
    if "--check" in arguments:
        same = target.exists() and target.read_text(encoding="utf-8") == page()
        print(
            "up to date" if same else f"{target.name} is stale: run tools/checks/render_matrices.py"
        )
        return 0 if same else 1
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
