"""Generate the missing golden tables and the vectors: `python tools/golden`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:
    # Python puts this folder on the path, and not the one that the package is in.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from golden import tables, vectors

SPEC = Path(__file__).resolve().parents[2] / "spec"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; print the names of the tables that were made."""
    parser = argparse.ArgumentParser(prog="golden", description=__doc__)
    parser.add_argument("--spec", type=Path, default=SPEC, help="the folder to write into")
    spec = parser.parse_args(arguments).spec
    (spec / "golden").mkdir(parents=True, exist_ok=True)
    for name in tables.make(spec / "golden"):
        print(name)
    vectors.write(spec / "vectors" / "entry-text.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
