"""Write the tables of names on the migration pages: `python tools/docs/peer_tables.py`.

Each table is made of the rows that `tablefmt.compat` obeys, between two marks of its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tablefmt.compat.delta.delta_names import ROWS as DELTA
from tablefmt.compat.deltalake.deltalake_names import ROWS as DELTALAKE
from tablefmt.compat.pyiceberg.pyiceberg_names import ROWS as PYICEBERG
from tablefmt.compat.translation import Row

PAGES = Path(__file__).parent / "pages" / "from"

TABLES = {"delta.md": DELTA, "delta-rs.md": DELTALAKE, "iceberg.md": PYICEBERG}
"""Rows by page."""

_MARKED = re.compile(r"(<!-- names -->\n).*?(<!-- end of names -->)", re.DOTALL)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as tables: names with a counterpart, refused names, names without effect."""
    parts = []
    groups = (
        ("same", ("theirs", "tablefmt", "difference")),
        ("refused", ("refused", "use instead")),
        ("unused", ("accepted with a warning", "because")),
    )
    known = list(rows)
    for kind, head in groups:
        lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for row in known:
            if row.kind == kind:
                cells = [_code(row.theirs), *([_code(row.ours)] if kind == "same" else [])]
                lines.append(f"| {' | '.join([*cells, row.note])} |")
        if len(lines) > 2:
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _code(name: str) -> str:
    return name if "`" in name else f"`{name}`"


def page(name: str) -> str:
    """Return the text of a page with the table of today's rows."""
    text = (PAGES / name).read_text(encoding="utf-8")
    return _MARKED.sub(lambda marks: f"{marks[1]}\n{table(TABLES[name])}\n\n{marks[2]}", text)


if __name__ == "__main__":
    for each in TABLES:
        (PAGES / each).write_text(page(each), encoding="utf-8")
