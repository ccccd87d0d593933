"""Generate the golden tables in spec/golden: valid and broken tables, and the expected results.

The writer is made from spec/ alone and imports nothing of tablefmt, so that the package reads
tables of another writer. Clock, ids and contents are fixed. Existing cases are not changed, because
released tables must stay readable as they are. To regenerate a case, delete its folder.
"""

from __future__ import annotations

import json
from pathlib import Path

from golden.cases import cases
from golden.maker import Maker

HEAD = Path(__file__).with_name("readme.md")
"""The text of the README above the list of cases."""


def write_case(maker: Maker, folder: Path) -> None:
    """Write a finished case."""
    for name, raw in maker.objects.items():
        path = folder / "table" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    text = json.dumps(maker.expected, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")
    (folder / "why.md").write_text(maker.why + "\n", encoding="utf-8")


def catalogue(root: Path) -> str:
    """Return the README of the golden tables, with a line for each case."""
    lines = HEAD.read_text(encoding="utf-8").splitlines()
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        outcome = expected.get("error") or expected.get("write_error") or "read"
        why = (folder / "why.md").read_text(encoding="utf-8").strip().replace("|", "\\|")
        lines.append(f"| {folder.name} | {outcome} | {why} |")
    return "\n".join(lines) + "\n"


def make(root: Path) -> list[str]:
    """Make the missing cases under `root`, and the catalogue; return their names."""
    made = []
    for maker in cases():
        folder = root / maker.name
        if not folder.exists():
            write_case(maker, folder)
            made.append(maker.name)
    (root / "README.md").write_text(catalogue(root), encoding="utf-8")
    return made
