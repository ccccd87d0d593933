"""Run the second reader: `python tools/logdump URI`."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Python puts this folder on the path, and not the one that the package is in.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from logdump import main

if __name__ == "__main__":
    sys.exit(main())
