"""Tables of what checks can find, from the package's own tables."""

from __future__ import annotations

from tablefmt.inspection.store_faults import FAULTS
from tablefmt.maintenance.finding_kinds import KINDS


def store_faults() -> str:
    """Return a table of the faults of stores."""
    lines = ["| fault | verdict | meaning | what to do |", "|---|---|---|---|"]
    for name, fault in FAULTS.items():
        lines.append(f"| `{name}` | {fault.verdict} | {fault.meaning} | {fault.advice} |")
    return "\n".join(lines)


REMEDIES = {
    "derived": "`--repair`",
    "loss": "`--repair --accept-loss FILE`",
    "manual": "by hand",
    "none": "",
}
"""Words for the remedies of findings."""


def findings() -> str:
    """Return a table of the kinds of findings of `verify`."""
    lines = ["| finding | severity | mended by | meaning | what to do |", "|---|---|---|---|---|"]
    for name, kind in KINDS.items():
        how = REMEDIES[kind.remedy]
        lines.append(f"| `{name}` | {kind.severity} | {how} | {kind.meaning} | {kind.action} |")
    return "\n".join(lines)
