"""Tables of the published conflict matrices for the guide, with what each rule means for a user.

The verdicts, outcomes and exceptions come from `spec/matrices/*.json`. This module contains only
the sentences. A matrix rule without a sentence is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MATRICES = Path(__file__).resolve().parents[2] / "spec" / "matrices"

NAMES = {
    "INSERT": "append",
    "UPDATE": "update, delete or merge",
    "OVERWRITE": "overwrite",
    "MINOR_COMPACT": "minor compaction",
    "MAJOR_COMPACT": "major compaction",
    "COMPACT": "compaction",
    "CLUSTER": "clustering",
}
"""Names of operation classes in the guide."""

BY_SCOPE = {
    "fail": "The {later} fails with `ConcurrentWriteException`. Run it again.",
    "replace": "Both commit. Afterwards, the partitions hold only the rows of the overwrite.",
    "append": "Both commit. The new rows are added to the compacted ones.",
    "compact": "Both commit. The compaction keeps the change of the earlier commit.",
}
"""Granularity `transaction`: a sentence for each outcome."""

BY_SCOPE_PAIRS = {
    (
        "MINOR_COMPACT",
        "UPDATE",
    ): "Both commit. The change is applied to the same rows in the compacted files.",
    (
        "MAJOR_COMPACT",
        "UPDATE",
    ): "Both commit. The change is applied to the same rows in the compacted files.",
    ("MINOR_COMPACT", "MAJOR_COMPACT"): "Both commit. The major compaction replaces the files "
    "that the minor one wrote.",
}
"""Pairs that need a separate sentence."""

NOTES = {
    "CLUSTER behaves as MAJOR_COMPACT on both axes, except INSERT then CLUSTER: compact": (
        "Clustering follows the row and the column of major compaction. Exception: a clustering "
        "may commit after an append."
    ),
    "RESTORE behaves as OVERWRITE of the whole table": (
        "A restore follows the row and the column of overwrite. It touches every partition."
    ),
    "the isolation level plays no role here": "The isolation level has no effect.",
}
"""Sentences for the notes of the matrix of granularity `transaction`."""

BOTH = {
    ("INSERT", "INSERT"): "Both commit.",
    ("INSERT", "UPDATE"): "Both commit. The result is as if the update ran before the append: it "
    "does not change the new rows. If a third commit in between may have changed the new rows, the "
    "update fails with `ConcurrentAppendException`.",
    ("INSERT", "COMPACT"): "Both commit. The next compaction includes the new files.",
    ("INSERT", "CLUSTER"): "Both commit. The next clustering includes the new files.",
    ("UPDATE", "INSERT"): "Both commit.",
    ("UPDATE", "COMPACT"): "Both commit. Rows that the earlier commit deleted stay deleted in the "
    "new files.",
    ("COMPACT", "INSERT"): "Both commit.",
    ("COMPACT", "UPDATE"): "Both commit. The update is applied to the same rows in the new files.",
    ("COMPACT", "COMPACT"): "Both commit. The later one leaves out files that the earlier one "
    "rewrote.",
    ("CLUSTER", "INSERT"): "Both commit.",
    ("CLUSTER", "COMPACT"): "Both commit. The compaction leaves out files that the clustering "
    "rewrote.",
}
"""Granularities `file` and `row`: pairs that always commit, in some profile."""

CONDITIONAL = {
    ("INSERT", "UPDATE"): "an appended row may match what the update read",
    ("UPDATE", "UPDATE"): "(1) the earlier one removed {unit} that the later one read; or (2) the "
    "earlier one wrote rows that may match the condition of the later one",
    ("UPDATE", "COMPACT"): "the update rewrote a file that the compaction rewrites",
    ("UPDATE", "CLUSTER"): "the update removed rows of a file that the clustering rewrites",
    ("COMPACT", "UPDATE"): "the compaction rewrote a file that the update read",
    ("COMPACT", "CLUSTER"): "both rewrite the same file",
    ("CLUSTER", "UPDATE"): "the clustering rewrote a file with {what} that the update read",
    ("CLUSTER", "CLUSTER"): "both rewrite the same file",
}
"""Granularities `file` and `row`: pairs in which the later commit may fail."""


def published(name: str) -> dict[str, Any]:
    """Return one of the published matrices."""
    found: dict[str, Any] = json.loads((MATRICES / name).read_text(encoding="utf-8"))
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def transaction_meaning(earlier: str, later: str, outcome: str) -> str:
    """Return what one of the 25 matrix rules means for a user."""
    text = BY_SCOPE_PAIRS.get((earlier, later), BY_SCOPE[outcome])
    return text.format(earlier=NAMES[earlier], later=NAMES[later])


def transaction_tables() -> str:
    """Return the matrix of granularity `transaction`, and the meaning of its 25 rules."""
    matrix = published("transaction.json")
    cells: Mapping[str, Mapping[str, str]] = matrix["earlier_then_later"]
    kinds = list(cells)
    shown = {name: "fails" if name == "fail" else "✓" for name in matrix["outcomes"]}
    grid = [[f"**{NAMES[a]}**", *(shown[cells[a][b]] for b in kinds)] for a in kinds]
    means = [
        [NAMES[a], NAMES[b], transaction_meaning(a, b, cells[a][b])] for a in kinds for b in kinds
    ]
    notes = "\n".join(f"- {NOTES[note]}" for note in matrix["notes"])
    return "\n\n".join(
        [
            table(["first ↓, then →", *(NAMES[kind] for kind in kinds)], grid),
            notes,
            folded("What each cell means", table(["first", "then", "what it means"], means)),
        ]
    )


def is_refused(cell: Mapping[str, Any]) -> bool:
    """Return True if the later commit of this matrix rule may fail."""
    return cell["conflict"] == "if" and cell.get("exception") is not None


def exceptions_of(cell: Mapping[str, Any]) -> list[str]:
    """Return the names of the exceptions that a matrix rule may raise."""
    words = str(cell.get("exception") or "").replace(",", " ").split()
    return [word for word in words if word.endswith("Exception")]


def row_meaning(cell: Mapping[str, Any]) -> str:
    """Return what one of the 96 matrix rules means for a user."""
    pair = (cell["earlier"], cell["later"])
    if not is_refused(cell):
        return BOTH[pair]
    by_row = cell["profile"].startswith("row")
    condition = CONDITIONAL[pair].format(
        unit="a row" if by_row else "rows of a file", what="rows" if by_row else "data"
    )
    names = " or ".join(f"`{name}`" for name in exceptions_of(cell))
    return f"Both commit, unless {condition}. Then the later one fails with {names}."


def file_and_row_tables() -> str:
    """Return the matrices of granularities `row` and `file`, and the meaning of their 96 rules."""
    cells = published("file_and_row.json")["cells"]
    profiles = list(dict.fromkeys(cell["profile"] for cell in cells))[::-1]
    return "\n\n".join(
        f"### {title(profile)}\n\n{profile_tables([c for c in cells if c['profile'] == profile])}"
        for profile in profiles
    )


def title(profile: str) -> str:
    """Return the heading of a profile."""
    granularity, mode = profile.split(", ")
    settings = {"deletion vectors": "merge-on-read", "copy-on-write": "copy-on-write"}[mode]
    default = " (the default)" if granularity == "row" else ""
    return f"Granularity `{granularity}`, {settings}{default}"


def profile_tables(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return the grid of one profile, and the meaning of its rules."""
    levels: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for cell in cells:
        levels.setdefault((cell["earlier"], cell["later"]), {})[cell["isolation"]] = cell
    kinds = list(dict.fromkeys(earlier for earlier, _ in levels))
    grid = [[f"**{NAMES[a]}**", *(shown_cell(levels[a, b]) for b in kinds)] for a in kinds]
    means = []
    for (earlier, later), by_level in levels.items():
        texts = {level: row_meaning(cell) for level, cell in by_level.items()}
        same = len(set(texts.values())) == 1
        for level, text in list(texts.items())[: 1 if same else None]:
            means.append([NAMES[earlier], NAMES[later], "any" if same else level, text])
    head = ["first", "then", "isolation", "what it means"]
    return "\n\n".join(
        [
            table(["first ↓, then →", *(NAMES[kind] for kind in kinds)], grid),
            folded("What each cell means", table(head, means)),
        ]
    )


def shown_cell(by_level: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a grid cell: whether the later commit may fail, and at which isolation."""
    refused = [level for level, cell in by_level.items() if is_refused(cell)]
    if not refused:
        return "✓"
    return "may fail" if len(refused) == len(by_level) else f"may fail under {refused[0]}"


def folded(summary: str, text: str) -> str:
    """Return text in a block that its title opens."""
    lines = [f"    {line}" if line else "" for line in text.splitlines()]
    return "\n".join([f'??? note "{summary}"', "", *lines])
