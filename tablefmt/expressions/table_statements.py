"""SQL statements on a whole table that Spark's grammar lacks. Pure.

    DESCRIBE HISTORY t [LIMIT n]            DESCRIBE DETAIL t
    OPTIMIZE t [FULL] [WHERE …] [ZORDER BY (…)]    VACUUM t [RETAIN n HOURS] [DRY RUN]
    RESTORE [TABLE] t TO VERSION AS OF n    RESTORE [TABLE] t TO TIMESTAMP AS OF '…'
    ALTER TABLE t ALTER [COLUMN] c SYNC IDENTITY
    ALTER TABLE t ADD | DROP PARTITION FIELD f
    ALTER TABLE t REPLACE PARTITION FIELD f WITH g
    CONVERT TO tablefmt delta.`/path`       (or iceberg, parquet)
    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] n [SHALLOW | DEEP] CLONE t
        [VERSION AS OF n | TIMESTAMP AS OF '…'] [TBLPROPERTIES (…)] [LOCATION '…']

The statements are Delta Lake's, and those about partition fields are Iceberg's. `t` is a name, or a
path as a string literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.literals import literal_text
from tablefmt.expressions.predicate import quote_name

_HIDDEN = "\0"
_WORD = rf"(?:`{_HIDDEN}+`|\w+)"
_PATH = rf"(?P<path>'{_HIDDEN}+'|\"{_HIDDEN}+\")"
_FIELD = rf"{_WORD}(?:\s*\({_HIDDEN}*\))?"
_NAME = rf"(?:(?P<name>{_WORD}(?:\s*\.\s*{_WORD})*)|{_PATH})"
_FORMS = tuple(
    re.compile(rf"\s*{text}[\s;]*", re.IGNORECASE)
    for text in (
        rf"DESC(?:RIBE)?\s+(?P<verb>HISTORY)\s+{_NAME}(?:\s+LIMIT\s+(?P<limit>\d{{1,18}}))?",
        rf"DESC(?:RIBE)?\s+(?P<verb>DETAIL)\s+{_NAME}",
        r"(?P<verb>CONVERT)\s+TO\s+TABLEFMT\s+(?P<format>DELTA|ICEBERG|PARQUET)"
        rf"\s*\.\s*(?P<name>`{_HIDDEN}+`)",
        rf"(?P<verb>OPTIMIZE)\s+{_NAME}(?P<full>\s+FULL)?(?:\s+WHERE\b(?P<where>[^;]+?))?"
        rf"(?:(?:\s+|(?<=['\")`]))ZORDER\s+BY"
        rf"(?:\s*\((?P<listed>{_HIDDEN}*)\)|\s+(?P<by>[^();]+)))?",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])ALTER\s+(?:COLUMN\s+)?(?P<by>{_WORD})"
        r"\s*(?<=[\s`])(?P<verb>SYNC)\s+IDENTITY",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<change>ADD|DROP|REPLACE)\s+"
        rf"(?P<verb>PARTITION)\s+FIELD\s+(?P<partition>{_FIELD})"
        rf"(?:\s*(?<=[\s`)])WITH\s+(?P<with>{_FIELD}))?"
        rf"(?:\s*(?<=[\s`)])AS\s+(?P<alias>{_WORD}))?",
        rf"(?P<verb>VACUUM)\s+{_NAME}"
        r"(?:\s+RETAIN\s+(?P<hours>\d{1,18}(?:\.\d{1,18})?)\s+HOURS?)?(?P<dry>\s+DRY\s+RUN)?",
        rf"(?P<create>CREATE\s+(?:OR\s+(?P<or_replace>REPLACE)\s+)?|(?P<replace>REPLACE)\s+)TABLE"
        rf"(?P<missing>\s+IF\s+NOT\s+EXISTS)?\s+(?P<target>{_WORD}(?:\s*\.\s*{_WORD})*)"
        rf"\s*(?:(?<=[\s`])(?P<depth>SHALLOW|DEEP)\s+)?(?<=[\s`])(?P<verb>CLONE)\s+{_NAME}"
        rf"(?:\s+VERSION\s+AS\s+OF\s+(?:(?P<version>\d{{1,18}})|(?P<tag>'{_HIDDEN}*'))"
        rf"|\s+TIMESTAMP\s+AS\s+OF\s+(?P<timestamp>'{_HIDDEN}*'))?"
        rf"(?:\s+TBLPROPERTIES\s*\((?P<properties>{_HIDDEN}*)\))?"
        rf"(?:\s*(?<=[\s)])LOCATION\s+(?P<location>'{_HIDDEN}*'|\"{_HIDDEN}*\"))?",
        rf"(?P<verb>RESTORE)\s+(?:TABLE\s+)?{_NAME}\s+(?:TO\s+)?"
        rf"(?:VERSION\s+AS\s+OF\s+(?:(?P<version>\d{{1,18}})|(?P<tag>'{_HIDDEN}*'))"
        rf"|TIMESTAMP\s+AS\s+OF\s+(?P<timestamp>'{_HIDDEN}*'))",
    )
)
"""Patterns over a text of which only the outermost words are visible."""

_PIECE = re.compile(
    r"""(?P<comment>--(?:\\\n|[^\r\n])*|(?P<block>/\*(?!\+)))
      |(?P<quoted>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*"
        | `(?:[^`]|``)*`)
      |(?P<unclosed>['"`])
      |\w+|.""",
    re.DOTALL | re.VERBOSE,
)
"""Tokens of Spark's lexer. A hint is not a comment."""

_BLOCK = re.compile(r"/\*(?!\+)|\*/")
_PROPERTY = re.compile(
    r"""\s*(?:(?P<words>[\w-]+(?:\.[\w-]+)*)|(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
      \s*(?:=\s*|\s)(?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\w.+-]+)\s*(?:,|$)""",
    re.VERBOSE,
)
_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_COLUMN = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*(?:,|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRequest:
    """The new table of CREATE TABLE … CLONE."""

    target: str
    """Name as written."""
    shallow: bool = False
    create: bool = True
    """Create it if it does not exist. False: REPLACE TABLE."""
    replace: bool = False
    if_missing: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A change of the partitioning by one field."""

    change: str
    """ADD, DROP or REPLACE."""
    of: str
    """Column or transform, such as `days(ts)`."""
    by: str | None = None
    """The field that takes the place, of REPLACE."""
    alias: str | None = None
    """Name that the statement gives to the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement:
    """Content of one of these statements."""

    verb: str
    """HISTORY, DETAIL, OPTIMIZE, VACUUM, RESTORE, SYNC, PARTITION, CONVERT or CLONE."""
    table: str
    """Table name as written; of a path in quotes, the same path as a name."""
    by_path: bool = False
    """True: the table is a path in quotes."""
    limit: int | None = None
    where: str | None = None
    """SQL text of the condition."""
    by: tuple[str, ...] = ()
    """Columns of ZORDER BY, or the column of SYNC IDENTITY, without quotes."""
    hours: float | None = None
    dry_run: bool = False
    version: int | None = None
    tag: str | None = None
    """Name of a tag instead of a version."""
    timestamp: str | None = None
    """Quoted text of a time."""
    format: str | None = None
    """Format of the source of CONVERT. `table` is its path in backticks."""
    clone: CloneRequest | None = None
    """The new table of CLONE. `table` is its source."""
    full: bool = False
    """OPTIMIZE rewrites files of older partitionings too."""
    field_change: FieldChange | None = None
    """The change of PARTITION FIELD."""


def read_statement(text: str) -> TableStatement | None:
    """Return the statement of a text; None for every other text, and for an incomplete
    statement.
    """
    layers = _layers(text)
    if layers is None:
        return None
    clear, outermost = layers
    found = next((match for form in _FORMS if (match := form.fullmatch(outermost))), None)
    if found is None:
        return None
    spans = {name: found.span(name) for name, seen in found.groupdict().items() if seen is not None}
    part = {name: clear[start:end].strip() for name, (start, end) in spans.items()}
    columns = part.get("listed", part.get("by"))
    by = () if columns is None else _columns(columns)
    if by is None or "" in part.values():
        return None
    name = _path_name(part["path"]) if "path" in part else part["name"]
    if name is None:
        return None
    clone = _clone(part) if "target" in part else None
    if "target" in part and clone is None:
        return None
    change = _field_change(part) if "partition" in part else None
    if "partition" in part and change is None:
        return None
    number = {key: int(part[key]) for key in ("limit", "version") if part.get(key)}
    return TableStatement(
        verb=part["verb"].upper(),
        table=name,
        by_path="path" in part,
        where=part.get("where"),
        by=by,
        hours=float(part["hours"]) if part.get("hours") else None,
        dry_run=bool(part.get("dry")),
        timestamp=part.get("timestamp"),
        tag=_text(part["tag"]) if "tag" in part else None,
        format=part["format"].lower() if "format" in part else None,
        clone=clone,
        full="full" in part,
        field_change=change,
        **number,
    )


def _field_change(part: Mapping[str, str]) -> FieldChange | None:
    """Return the change of a partition field; None if the statement is invalid."""
    change = part["change"].upper()
    names = [_field_text(part[key]) for key in ("partition", "with", "alias") if key in part]
    if None in names or ("with" in part) != (change == "REPLACE"):
        return None
    if change == "DROP" and "alias" in part:
        return None
    alias = _field_text(part["alias"]) if "alias" in part else None
    by = _field_text(part["with"]) if "with" in part else None
    return FieldChange(change=change, of=str(names[0]), by=by, alias=alias)


def _field_text(text: str) -> str | None:
    """Return a column without quotes, or a transform as it is written."""
    if "(" in text:
        return text
    names = _columns(text)
    return names[0] if names else None


def _clone(part: Mapping[str, str]) -> CloneRequest | None:
    """Return the new table of CLONE; None if the statement is invalid."""
    properties = _properties(part.get("properties", ""))
    replace = "or_replace" in part or "replace" in part
    if properties is None or (replace and "missing" in part):
        return None
    return CloneRequest(
        target=part["target"],
        shallow=part.get("depth", "").upper() == "SHALLOW",
        create="replace" not in part,
        replace=replace,
        if_missing="missing" in part,
        properties=properties,
        location=_text(part["location"]) if "location" in part else None,
    )


def _properties(text: str) -> dict[str, str] | None:
    """Return the properties in brackets; None if there is anything else."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PROPERTY.match(text, at)
        if match is None:
            return None
        value = match["value"]
        name = match["words"] or _text(match["quoted"])
        found[name] = _text(value) if value[0] in "'\"" else value
        at = match.end()
    return None if text.rstrip().endswith(",") else found


def _text(quoted: str) -> str:
    try:
        return literal_text(quoted)
    except InvalidPredicateError:
        return quoted


def _path_name(quoted: str) -> str | None:
    """Return the name of a path in quotes. None: it is not a path, or not a valid string."""
    try:
        path = literal_text(quoted)
    except InvalidPredicateError:
        return None
    return f"tablefmt.{quote_name(path)}" if "/" in path else None


def _layers(text: str) -> tuple[str, str] | None:
    """Return the text with comments blanked, and also with quoted or bracketed content hidden.

    Both have the length of the text. None: a quote, comment or bracket is not closed.
    """
    clear: list[str] = []
    outermost: list[str] = []
    at = depth = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        assert piece is not None
        end = _block_end(text, at) if piece["block"] else piece.end()
        if end is None or piece["unclosed"]:
            return None
        clear.append(" " * (end - at) if piece["comment"] else text[at:end])
        depth -= piece[0] == ")"
        if depth < 0:
            return None
        if depth:
            outermost.append(_HIDDEN * (end - at))
        elif piece["quoted"]:
            outermost.append(text[at] + _HIDDEN * (end - at - 2) + text[end - 1])
        else:
            outermost.append(clear[-1])
        depth += piece[0] == "("
        at = end
    return None if depth else ("".join(clear), "".join(outermost))


def _block_end(text: str, at: int) -> int | None:
    """Return the end of a comment in /* and */, which may nest; None if it does not end."""
    depth = 0
    for mark in _BLOCK.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return None


def _columns(text: str) -> tuple[str, ...] | None:
    """Return the names between commas; None if there is anything else."""
    names, at = [], 0
    while at < len(text):
        match = _COLUMN.match(text, at)
        if match is None:
            return None
        words = re.findall(_PART, match[1])
        names.append(
            ".".join(w[1:-1].replace("``", "`") if w.startswith("`") else w for w in words)
        )
        at = match.end()
    return None if text.rstrip().endswith(",") else tuple(names)
