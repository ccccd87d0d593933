"""Wide tables and long values on a terminal: nothing is wider than it, and nothing is cut."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.cli.main import main
from tablefmt.cli.output import print_table


class Terminal(io.StringIO):
    """Text that goes to a person."""

    def isatty(self) -> bool:
        return True


def printed(
    monkeypatch: pytest.MonkeyPatch, columns: list[str], rows: list[list[Any]], width: int = 80
) -> list[str]:
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", screen)
    print_table(columns, rows)
    return re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()


def test_sixty_columns_come_one_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name beside its value, whole."""
    columns = [f"column_{at:02}" for at in range(60)]
    rows = [[f"value {row}.{at}" for at in range(60)] for row in range(2)]
    wanted = []
    for row in range(2):
        wanted.append(f"-- row {row + 1} of 2")
        wanted += [f"{name}  value {row}.{at}" for at, name in enumerate(columns)]
    assert printed(monkeypatch, columns, rows) == wanted
    assert printed(monkeypatch, columns, []) == ["no rows; the columns are " + ", ".join(columns)]


def test_a_table_that_fits_stays_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many narrow columns, and few whose long values are folded."""
    narrow = [f"c{at}" for at in range(15)]
    lines = printed(monkeypatch, narrow, [list(range(15))])
    assert [line.split() for line in lines] == [narrow, list(map(str, range(15)))]
    lines = printed(monkeypatch, ["id", "path"], [[1, "x" * 100]])
    assert lines[0].split() == ["id", "path"]
    assert "".join("".join(lines[1:]).split()) == "1" + "x" * 100


def wide(place: Path) -> tablefmt.Table:
    """A table whose description, history and files have long values."""
    columns = ", ".join(f"measurement_{at} DOUBLE" for at in range(12))
    table = tablefmt.create(
        str(place),
        f"id BIGINT, region STRING, {columns}",
        partition_by=["region"],
        properties={"user.owner": "the team of the warehouse", "targetFileSize": "1000000"},
    )
    table.append([{"id": 1, "region": "EU"}, {"id": 2, "region": "US"}])
    table.update({"measurement_1": "1.5"}, "id = 1", user_metadata={"ticket": "A-1"})
    return table


@pytest.mark.parametrize("width", [80, 200])
def test_commands_fit_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every value is there as a whole, also if it is folded."""
    table = wide(tmp_path / "t")
    partition = "region = EU" if width == 80 else '{"region":"EU"}'
    values = {
        "describe": [table.id, "user.owner = the team of the warehouse", "`measurement_11` DOUBLE"],
        "history": ["CREATE TABLE", "numOutputRows=2", "numUpdatedRows=1", '{"ticket":"A-1"}'],
        "files": [*table.scan().files()["path"].to_pylist(), partition],
    }
    for command, wanted in values.items():
        screen = Terminal()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys, "stdout", screen)
        assert main([command, table.uri], standalone_mode=False) == 0
        lines = re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()
        assert max(map(len, lines)) <= width, command
        whole = "".join("".join(lines).split())
        assert [value for value in wanted if "".join(value.split()) not in whole] == []
        # A table has fewer lines than records of one column a line.
        assert command == "describe" or lines[0].startswith("-- row 1 of") == (width == 80)


def test_other_programs_get_a_row_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of any width is one line."""
    screen = io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", screen)
    columns = [f"column_{at:02}" for at in range(60)]
    print_table(columns, [list(range(60))])
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert lines == [columns, list(map(str, range(60)))]
