"""Tables of what checks can find, from the package's own tables."""

from __future__ import annotations

from tablefmt.inspection.store_faults import FAULTS


def store_faults() -> str:
    """Return a table of the faults of stores."""
    lines = ["| fault | verdict | meaning | what to do |", "|---|---|---|---|"]
    for name, fault in FAULTS.items():
        lines.append(f"| `{name}` | {fault.verdict} | {fault.meaning} | {fault.advice} |")
    return "\n".join(lines)
