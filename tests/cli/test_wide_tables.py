"""Tables with many columns on a narrow terminal."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

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


def test_other_programs_get_a_row_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of any width is one line."""
    screen = io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", screen)
    columns = [f"column_{at:02}" for at in range(60)]
    print_table(columns, [list(range(60))])
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert lines == [columns, list(map(str, range(60)))]
