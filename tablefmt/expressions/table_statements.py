"""SQL statements on a table as a whole that Spark's grammar lacks. Pure.

    DESCRIBE HISTORY t [LIMIT n]            DESCRIBE DETAIL t
    OPTIMIZE t [WHERE …] [ZORDER BY (…)]    VACUUM t [RETAIN n HOURS] [DRY RUN]
    RESTORE [TABLE] t TO VERSION AS OF n    RESTORE [TABLE] t TO TIMESTAMP AS OF '…'

They are those of Delta Lake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME = rf"(?P<name>{_WORD}(?:\s*\.\s*{_WORD})*)"
_COMMENT = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_END = re.compile(r"[\s;]*$")
_COLUMN = re.compile(rf"\s*({_WORD}(?:\s*\.\s*{_WORD})*)\s*(?:,|$)")

_FORMS = tuple(
    re.compile(text, re.IGNORECASE | re.DOTALL)
    for text in (
        rf"DESC(?:RIBE)?\s+(?P<verb>HISTORY)\s+{_NAME}(?:\s+LIMIT\s+(?P<limit>\d+))?",
        rf"DESC(?:RIBE)?\s+(?P<verb>DETAIL)\s+{_NAME}",
        rf"(?P<verb>OPTIMIZE)\s+{_NAME}(?:\s+WHERE\s+(?P<where>.+?))?"
        r"(?:\s+ZORDER\s+BY\s+(?:\((?P<listed>[^()]+)\)|(?P<by>[^()]+)))?",
        rf"(?P<verb>VACUUM)\s+{_NAME}(?:\s+RETAIN\s+(?P<hours>\d+(?:\.\d+)?)\s+HOURS?)?"
        r"(?P<dry>\s+DRY\s+RUN)?",
        rf"(?P<verb>RESTORE)\s+(?:TABLE\s+)?{_NAME}\s+(?:TO\s+)?"
        r"(?:VERSION\s+AS\s+OF\s+(?P<version>\d+)"
        r"|TIMESTAMP\s+AS\s+OF\s+(?P<timestamp>'(?:[^'\\]|''|\\.)*'))",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement:
    """What one of them says."""

    verb: str
    """HISTORY, DETAIL, OPTIMIZE, VACUUM or RESTORE."""
    table: str
    """Its name, as it is written."""
    limit: int | None = None
    where: str | None = None
    """SQL text."""
    by: tuple[str, ...] = ()
    """Columns of ZORDER BY, without quotes."""
    hours: float | None = None
    dry_run: bool = False
    version: int | None = None
    timestamp: str | None = None
    """The text in quotes of a time."""


def read_statement(text: str) -> TableStatement | None:
    """The statement that a text is; None for every other text, and for one that is not complete."""
    body = _END.sub("", text[_begin(text) :])
    found = next((match for form in _FORMS if (match := form.fullmatch(body))), None)
    if found is None:
        return None
    part = found.groupdict()
    columns = part.get("listed") or part.get("by")
    by = () if columns is None else _columns(columns)
    if by is None:
        return None
    number = {name: int(part[name]) for name in ("limit", "version") if part.get(name)}
    return TableStatement(
        verb=part["verb"].upper(),
        table=part["name"],
        where=part.get("where"),
        by=by,
        hours=float(part["hours"]) if part.get("hours") else None,
        dry_run=bool(part.get("dry")),
        timestamp=part.get("timestamp"),
        **number,
    )


def _begin(text: str) -> int:
    """Where the first word is."""
    at = 0
    while match := _COMMENT.match(text, at):
        at = match.end()
    return at


def _columns(text: str) -> tuple[str, ...] | None:
    """Names between commas; None if there is something else."""
    names, at = [], 0
    while at < len(text):
        match = _COLUMN.match(text, at)
        if match is None:
            return None
        words = re.findall(_WORD, match[1])
        names.append(
            ".".join(w[1:-1].replace("``", "`") if w.startswith("`") else w for w in words)
        )
        at = match.end()
    return None if text.rstrip().endswith(",") else tuple(names)
