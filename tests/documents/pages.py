"""README and the pages of the site: their blocks of code, and how each kind of block is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.places import ROOT

README = ROOT / "README.md"
SITE = ROOT / "tools" / "docs" / "pages"
FENCED = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
ANSWER = re.compile(r"^(?P<expression>\S.*?)  # -> (?P<answer>.+)$", re.MULTILINE)

RUN = {"python", "bash", "sql"}
"""Languages of blocks that are run."""

SHOWN = {"sh", "text"}
"""`sh` sets an environment up; `text` shows something that needs another program. Not run."""

NOT_RUN = {
    "README.md": (2, "set up an environment"),
    "from/delta.md": (1, "needs Delta's jars"),
    "from/iceberg.md": (1, "needs Iceberg's jars and a catalog"),
    "guide/clones.md": (1, "tests/spark/entry/test_clone_statements.py runs such statements"),
    "guide/conflicts.md": (1, "output of a program"),
    "guide/get-started.md": (1, "sets up an environment"),
    "guide/readers.md": (1, "needs an extension of DuckDB"),
    "guide/stores.md": (5, "need Google's or Azure's cloud, or take a minute"),
    "guide/testing.md": (1, "needs the reader's own store"),
    "guide/verify.md": (1, "needs a damaged table"),
}
"""Pages with blocks that no test runs: how many, and why. The site labels these blocks."""

ELSEWHERE = {"guide/pyspark.md": "tests/spark/connect/test_examples.py"}
"""Pages that need a Spark Connect server, with the test that runs them."""


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line on which the text begins."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Return README and every page of the site."""
    return [README, *sorted(SITE.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Return what a page is called in messages."""
    return page.relative_to(SITE if SITE in page.parents else ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCED.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)


def uses_spark(page: Path) -> bool:
    """Return whether a block of a page needs a Spark session."""
    return any(
        block.language == "sql" or (block.language == "python" and "spark" in block.text)
        for block in blocks(page)
    )


def pages_here() -> list[Path]:
    """Return the pages with code that run in a process of their own or in that of the tests."""
    return [
        page
        for page in pages()
        if name_of(page) not in ELSEWHERE and any(block.language in RUN for block in blocks(page))
    ]


def checked(text: str) -> str:
    """Return the program with every `expression  # -> answer` as an assertion, on one line."""
    return ANSWER.sub(
        lambda m: f"_found = repr({m['expression']}); assert _found == {m['answer']!r}, _found",
        text,
    )


def statements(block: str) -> list[tuple[str, list[str]]]:
    """Return the statements of a block of SQL, each with the rows shown below it."""
    found: list[tuple[str, list[str]]] = []
    text: list[str] = []
    for line in block.splitlines():
        if line.startswith("-- "):
            found[-1][1].append(line.removeprefix("-- "))
        elif line.strip():
            text.append(line)
        if line.endswith(";"):
            found.append(("\n".join(text).removesuffix(";"), []))
            text.clear()
    assert not text, text
    return found


def sql_as_python(block: str) -> str:
    """Return a block of SQL as Python that compares a query's rows with those shown below it."""
    program = []
    for text, rows in statements(block):
        program.append(f"_rows = spark.sql({text!r}).collect()")
        if rows:
            program.append("_rows = [' | '.join(map(str, row)) for row in _rows]")
            program.append(f"assert _rows == {rows!r}, _rows")
    return "\n".join(program)
