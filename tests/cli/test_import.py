"""`tablefmt import` (IMP-5)."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from tablefmt.cli.main import main
from tests.imports.sources import write


def test_import_prints_the_files_and_rows(tmp_path: Path) -> None:
    """IMP-5, IMP-7: the report is text or JSON; an error is one line."""
    for name in ("t", "u"):
        write(tmp_path / name / "day=1" / "a.parquet", {"x": [1, 2]})
    result = CliRunner().invoke(main, ["import", str(tmp_path / "t")])
    assert result.exit_code == 0, result.output
    assert "imported 1 file with 2 rows" in result.output
    command = ["import", str(tmp_path / "u"), "--format", "parquet", "--json"]
    report = json.loads(CliRunner().invoke(main, command).output)
    assert (report["version"], report["files"], report["rows"]) == (1, 1, 2)
    again = CliRunner().invoke(main, ["import", str(tmp_path / "u")])
    assert again.exit_code != 0
