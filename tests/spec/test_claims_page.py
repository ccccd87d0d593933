"""spec/claims.md has each number of README and the site, and each row is still on its page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from tablefmt.changes.version_range import SETTLE_US
from tablefmt.commit.driver import CLOCK_AHEAD_MAX_US, DEADLINE_SECONDS
from tablefmt.export import table_export
from tablefmt.expressions import constraint_tokens
from tablefmt.imports import clone_copies
from tablefmt.inspection.store_check import UPLOAD_BYTES
from tablefmt.log.object_names import VERSION_MAX
from tablefmt.model import schema, tags
from tablefmt.model.properties import PROPERTIES
from tablefmt.model.scalar_values import BOUND_LENGTH_MAX
from tablefmt.session.identity_claims import AHEAD_MAX
from tablefmt.spark.jvm.spark_internals import MINORS
from tablefmt.spark.streams.stream_options import FILES_BY_DEFAULT
from tablefmt.store.object_store import ENTRY_BYTES_MAX
from tests.places import ROOT

SITE = ROOT / "tools" / "docs" / "pages"
PAGES = {"README.md": ROOT / "README.md"} | {
    path.relative_to(SITE).as_posix(): path for path in sorted(SITE.rglob("*.md"))
}
WHOLE = ("README.md", "index.md", "limits.md")
"""Pages of which each number is a claim."""

UNITS = """
    ms seconds? minutes? hours? days? bytes [KMG]i?B rows files requests? GETs? PUTs? commits groups
    columns characters levels times snapshots appends processes objects % flights
"""
CLAIM = re.compile(
    r"(?<![\w.,^-])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|(?<=Java )\d+|\d+(?= ?(?:"
    + "|".join(UNITS.split())
    + r")(?!\w)))(?![\w,]*\d)"
)
"""Numbers with a unit, numbers of four digits and more, releases."""

ANY = re.compile(r"(?<![\w.,^-])\d[\d,]*(?:\.\d+)?(?!\w)")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def prose(page: str) -> str:
    """A page without code, addresses of links and front matter, in one line."""
    text = PAGES[page].read_text(encoding="utf-8")
    text = re.sub(r"^---\n.*?\n---\n|^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "code", text))
    return " ".join(re.sub(r"^ *\d+\. ", "", text, flags=re.MULTILINE).split())


def rows() -> list[list[str]]:
    """Page, claim, what shows it, and when that last ran."""
    text = (ROOT / "spec" / "claims.md").read_text(encoding="utf-8")
    table = text.partition("|---|---|---|---|\n")[2]
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r" (?<!\\)\| ", line.strip("| "))]
        for line in table.splitlines()
    ]


CLAIMS = rows()


def numbers(page: str) -> Iterator[tuple[int, int, str]]:
    text = prose(page)
    for match in (ANY if page in WHOLE else CLAIM).finditer(text):
        yield match.start(), match.end(), text[max(0, match.start() - 60) : match.end() + 40]


def claimed(page: str) -> Iterator[tuple[int, int]]:
    """The places of a page that a row repeats."""
    text = prose(page)
    for where, claim, *_ in CLAIMS:
        if where == page:
            for match in re.finditer(re.escape(claim), text):
                yield match.span()


@pytest.mark.parametrize("page", PAGES)
def test_each_number_of_a_page_is_a_claim(page: str) -> None:
    known = list(claimed(page))
    missing = [
        around
        for begin, end, around in numbers(page)
        if not any(first <= begin and end <= last for first, last in known)
    ]
    assert missing == []


def test_each_claim_is_on_its_page() -> None:
    assert [row for row in CLAIMS if len(row) != 4] == []
    assert [(page, claim) for page, claim, *_ in CLAIMS if claim not in prose(page)] == []
    assert len(CLAIMS) > 55


def test_what_shows_a_claim_is_there() -> None:
    for _, claim, how, when in CLAIMS:
        named = NAMED.findall(how)
        programs = re.findall(r"tools/checks/\w+\.py", how)
        assert named or programs or "the constant" in how or "`" in how or "by hand" in how, claim
        assert all((ROOT / program).is_file() for program in programs), claim
        assert when
        for path, function in named:
            assert (ROOT / path).is_file(), path
            tree = ast.parse((ROOT / path).read_text("utf-8"))
            names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
            assert not function or function in names, f"{path}::{function}"


PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
TEN_MINUTES = 10 * 60 * 1_000_000
CONSTANTS: Mapping[str, tuple[object, object]] = {
    "after 7 days by default": (PROPERTIES["deletedFileRetentionDuration"].default, "7 days"),
    "7 days by default": (PROPERTIES["deletedFileRetentionDuration"].default, "7 days"),
    "retention of 7 days": (PROPERTIES["deletedFileRetentionDuration"].default, "7 days"),
    "30 days": (PROPERTIES["logRetentionDuration"].default, "30 days"),
    "Python 3.10 or later": ('requires-python = ">=3.10"' in PROJECT, True),
    "| Python | 3.10 and later |": ('requires-python = ">=3.10"' in PROJECT, True),
    "1.4 and later, before 3": ('"duckdb>=1.4.4,<3"' in PROJECT, True),
    "polars | 2.0": ('"polars>=2.0"' in PROJECT, True),
    "PySpark 4.1, 4.2 or 4.3": (MINORS, ((4, 1), (4, 2), (4, 3))),
    "PySpark | 4.1 to 4.3": (MINORS, ((4, 1), (4, 2), (4, 3))),
    "columns of a schema | 10,000": (schema.COLUMNS_MAX, 10_000),
    "at most 10,000 columns, and types nest up to 64 levels": (
        (schema.COLUMNS_MAX, schema.DEPTH_MAX),
        (10_000, 64),
    ),
    "levels of nested types | 64": (schema.DEPTH_MAX, 64),
    "a column name | 1,024 bytes": (schema.NAME_BYTES_MAX, 1024),
    "a log entry | 64 MiB": (ENTRY_BYTES_MAX, 64 << 20),
    "versions of a table | 2^63": (VERSION_MAX, (1 << 63) - 1),
    "a condition | 100,000 characters, 64 levels": (
        (constraint_tokens.TEXT_MAX, constraint_tokens.DEPTH_MAX),
        (100_000, 64),
    ),
    "a comment | 4,000 characters": (schema.COMMENT_MAX, 4000),
    "600 seconds by default": (DEADLINE_SECONDS, 600),
    "8 files at once": (clone_copies.THREADS, 8),
    "longer than 2 seconds": (table_export.SECONDS, 2),
    "only after 32 characters": (BOUND_LENGTH_MAX, 32),
    "10 minutes ahead": (CLOCK_AHEAD_MAX_US, TEN_MINUTES),
    "until 10 minutes after": (SETTLE_US, TEN_MINUTES),
    "newest 20 snapshots": (PROPERTIES["export.iceberg.snapshots"].default, "20"),
    "65,536 that an open handle": (AHEAD_MAX, 65_536),
    "17 MiB": (UPLOAD_BYTES, 17 << 20),
    "1,000 by default": (FILES_BY_DEFAULT, 1000),
    "at most 128 characters": (tags.NAME_MAX, 128),
}
"""Words of claims, with the value of the code and the value that the words say."""


def test_a_number_is_that_of_the_code() -> None:
    assert {words: found for words, (found, said) in CONSTANTS.items() if found != said} == {}
    by_constant = [claim for _, claim, how, _ in CLAIMS if "the constant" in how]
    assert [claim for claim in by_constant if not any(words in claim for words in CONSTANTS)] == []
    assert [words for words in CONSTANTS if not any(words in claim for claim in by_constant)] == []
