"""Places in the checkout, so that no test has to count folders."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
GOLDEN = ROOT / "spec" / "golden"
MATRICES = ROOT / "spec" / "matrices"
