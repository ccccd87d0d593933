"""SQL statements on a whole table that Spark's grammar lacks. Pure.

    DESCRIBE HISTORY t [LIMIT n]            DESCRIBE DETAIL t
    OPTIMIZE t [FULL] [WHERE …] [ZORDER BY (…)]
    VACUUM t [FULL | LITE] [RETAIN n HOURS] [DRY RUN]
    RESTORE [TABLE] t TO VERSION AS OF n    RESTORE [TABLE] t TO TIMESTAMP AS OF '…'

    REORG TABLE t [WHERE …] APPLY (PURGE)
    ALTER TABLE t ALTER [COLUMN] c SYNC IDENTITY
    ALTER TABLE t ADD | DROP PARTITION FIELD f
    ALTER TABLE t REPLACE PARTITION FIELD f WITH g

    CONVERT TO tablefmt delta.`/path` [NO STATISTICS] [PARTITIONED BY (…)]
    CREATE [OR REPLACE] TABLE [IF NOT EXISTS] n [SHALLOW | DEEP] CLONE t
        [VERSION AS OF n | TIMESTAMP AS OF '…'] [TBLPROPERTIES (…)] [LOCATION '…']

    CALL [catalog.]system.procedure(…)
    ALTER TABLE t CREATE [OR REPLACE] TAG [IF NOT EXISTS] n [AS OF VERSION v] [RETAIN d DAYS]
    ALTER TABLE t DROP TAG [IF EXISTS] n

    ALTER TABLE t WRITE {[LOCALLY] ORDERED BY … | UNORDERED | DISTRIBUTED BY PARTITION …}

The statements are those of Delta Lake, and from CALL on of Iceberg. `t` is a name, or a path as a
string literal. `REFUSALS` has statements that are read only to refuse them by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.literals import literal_text
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.procedure_calls import ProcedureCall, read_call, sort_columns

_HIDDEN = "\0"
_WORD = rf"(?:`{_HIDDEN}+`|\w+)"
_PATH = rf"(?P<path>'{_HIDDEN}+'|\"{_HIDDEN}+\")"
_FIELD = rf"{_WORD}(?:\s*\({_HIDDEN}*\))?"
_NAME = rf"(?:(?P<name>{_WORD}(?:\s*\.\s*{_WORD})*)|{_PATH})"
_MOMENT = rf"\w+\s*\({_HIDDEN}*\)(?:\s*[-+]\s*INTERVAL\s+(?:'{_HIDDEN}*'|\d+)\s+\w+)?"
"""A call such as date_sub(current_date(), 1), perhaps with an interval."""
_FORMS = tuple(
    re.compile(rf"\s*{text}[\s;]*", re.IGNORECASE)
    for text in (
        rf"DESC(?:RIBE)?\s+(?P<verb>HISTORY)\s+{_NAME}(?:\s+LIMIT\s+(?P<limit>\d{{1,18}}))?",
        rf"DESC(?:RIBE)?\s+(?P<verb>DETAIL)\s+{_NAME}",
        r"(?P<verb>CONVERT)\s+TO\s+TABLEFMT\s+(?P<format>DELTA|ICEBERG|PARQUET)"
        rf"\s*\.\s*(?P<name>`{_HIDDEN}+`)(?:\s+NO\s+STATISTICS)?"
        rf"(?:\s+PARTITIONED\s+BY\s*\((?P<partitions>{_HIDDEN}*)\))?",
        rf"(?P<verb>OPTIMIZE)\s+{_NAME}(?P<full>\s+FULL)?(?:\s+WHERE\b(?P<where>[^;]+?))?"
        rf"(?:(?:\s+|(?<=['\")`]))ZORDER\s+BY"
        rf"(?:\s*\((?P<listed>{_HIDDEN}*)\)|\s+(?P<by>[^();]+)))?",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])ALTER\s+(?:COLUMN\s+)?(?P<by>{_WORD})"
        r"\s*(?<=[\s`])(?P<verb>SYNC)\s+IDENTITY",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<change>ADD|DROP|REPLACE)\s+"
        rf"(?P<verb>PARTITION)\s+FIELD\s+(?P<partition>{_FIELD})"
        rf"(?:\s*(?<=[\s`)])WITH\s+(?P<with>{_FIELD}))?"
        rf"(?:\s*(?<=[\s`)])AS\s+(?P<alias>{_WORD}))?",
        rf"(?P<verb>REORG)\s+TABLE\s+{_NAME}(?:\s+WHERE\b(?P<where>[^;]+?))?"
        r"\s*(?<=[\s'\")`])APPLY\s*\((?P<purge>\0*)\)",
        rf"(?P<verb>CALL)\s+(?:{_WORD}\s*\.\s*)?SYSTEM\s*\.\s*(?P<procedure>\w+)"
        rf"\s*\((?P<arguments>{_HIDDEN}*)\)",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<make>CREATE(?:\s+OR\s+REPLACE)?|REPLACE)"
        rf"\s+(?P<verb>TAG)(?P<missing>\s+IF\s+NOT\s+EXISTS)?\s+(?P<by>{_WORD})"
        r"(?:\s*(?<=[\s`])AS\s+OF\s+VERSION\s+(?P<version>\d{1,18}))?"
        r"(?:\s*(?<=[\s`\d])RETAIN\s+(?P<retain>\d{1,9}\s+(?:DAY|HOUR|MINUTE)S?))?",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<make>DROP)\s+(?P<verb>TAG)"
        rf"(?P<there>\s+IF\s+EXISTS)?\s+(?P<by>{_WORD})",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<verb>WRITE)\s+(?P<unordered>UNORDERED)",
        rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?P<verb>WRITE)"
        r"(?=\s+\w)(?P<distributed>\s+DISTRIBUTED\s+BY\s+PARTITION)?"
        r"(?:\s+(?:LOCALLY\s+)?ORDERED\s+BY\s+(?P<order>[^;]+?))?",
        rf"(?P<verb>VACUUM)\s+{_NAME}(?:\s+(?:FULL|LITE))?"
        r"(?:\s+RETAIN\s+(?P<hours>\d{1,18}(?:\.\d{1,18})?)\s+HOURS?)?(?P<dry>\s+DRY\s+RUN)?",
        rf"(?P<create>CREATE\s+(?:OR\s+(?P<or_replace>REPLACE)\s+)?|(?P<replace>REPLACE)\s+)TABLE"
        rf"(?P<missing>\s+IF\s+NOT\s+EXISTS)?\s+(?P<target>{_WORD}(?:\s*\.\s*{_WORD})*)"
        rf"\s*(?:(?<=[\s`])(?P<depth>SHALLOW|DEEP)\s+)?(?<=[\s`])(?P<verb>CLONE)\s+{_NAME}"
        rf"(?:\s+VERSION\s+AS\s+OF\s+(?:(?P<version>\d{{1,18}})|(?P<tag>'{_HIDDEN}*'))"
        rf"|\s+TIMESTAMP\s+AS\s+OF\s+(?:(?P<timestamp>'{_HIDDEN}*')|(?P<moment>{_MOMENT})))?"
        rf"(?:\s+TBLPROPERTIES\s*\((?P<properties>{_HIDDEN}*)\))?"
        rf"(?:\s*(?<=[\s)])LOCATION\s+(?P<location>'{_HIDDEN}*'|\"{_HIDDEN}*\"))?",
        rf"(?P<verb>RESTORE)\s+(?:TABLE\s+)?{_NAME}\s+(?:TO\s+)?"
        rf"(?:VERSION\s+AS\s+OF\s+(?:(?P<version>\d{{1,18}})|(?P<tag>'{_HIDDEN}*'))"
        rf"|TIMESTAMP\s+AS\s+OF\s+(?:(?P<timestamp>'{_HIDDEN}*')|(?P<moment>{_MOMENT})))",
    )
)
"""Patterns over a text of which only the outermost words are visible."""

_ONE_LINE = "a table has one line of versions; for a trial, use CREATE TABLE … SHALLOW CLONE"

REFUSALS = tuple(
    (re.compile(rf"\s*{text}(?!\w).*", re.IGNORECASE | re.DOTALL), feature, instead)
    for text, feature, instead in (
        (
            rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?:CREATE(?:\s+OR\s+REPLACE)?|REPLACE|DROP)"
            r"\s+BRANCH",
            "BRANCH",
            _ONE_LINE,
        ),
        (
            rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])(?:SET|DROP)\s+IDENTIFIER\s+FIELDS",
            "IDENTIFIER FIELDS",
            "name the key columns in MERGE … ON; tablefmt tables enforce no keys",
        ),
        (
            rf"ALTER\s+TABLE\s+{_NAME}\s*(?<=[\s`'\"])DROP\s+FEATURE",
            "DROP FEATURE",
            "leave DROP FEATURE out: readers of older releases refuse the table by name",
        ),
        (
            rf"GENERATE\s+\w+\s+FOR\s+TABLE\s+{_NAME}",
            "GENERATE",
            "set the property export to 'delta' or 'iceberg' for other readers",
        ),
        (
            rf"REORG\s+TABLE\s+{_NAME}\s*(?<=[\s'\"`])APPLY\s*\(",
            "REORG APPLY (UPGRADE UNIFORM)",
            "set the property export to 'iceberg'",
        ),
        (
            rf"VACUUM\s+{_NAME}\s+USING\s+INVENTORY",
            "USING INVENTORY",
            "leave USING INVENTORY out: vacuum lists the folder once",
        ),
    )
)
"""Patterns of statements that are refused, the name of each, and what to do."""

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
class TagStatement:
    """Change of a tag by ALTER TABLE."""

    create: bool = False
    replace: bool = False
    drop: bool = False
    quiet: bool = False
    """True: do nothing if the tag is there, or is not there to be dropped."""
    retain: str | None = None
    """A duration: `7 DAYS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutStatement:
    """Order and distribution of rows in ALTER TABLE … WRITE."""

    by: tuple[str, ...] | None
    """Columns; empty to remove the order. None: the order stays."""
    by_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement:
    """Content of one of these statements."""

    verb: str
    """The first word of its own: HISTORY, OPTIMIZE, CLONE, CALL, TAG, WRITE and so on."""
    table: str
    """Table name as written; of a path in quotes, the same path as a name."""
    by_path: bool = False
    """True: the table is a path in quotes."""
    limit: int | None = None
    where: str | None = None
    """SQL text of the condition."""
    by: tuple[str, ...] = ()
    """Columns of ZORDER BY or of an order, or the column or tag of a statement, without quotes."""
    hours: float | None = None
    dry_run: bool = False
    version: int | None = None
    tag: str | None = None
    """Name of a tag instead of a version."""
    timestamp: str | None = None
    """SQL text of a time: a quoted literal, or a call."""
    full: bool = False
    """True: OPTIMIZE of everything."""
    format: str | None = None
    """Format of the source of CONVERT. `table` is its path in backticks."""
    partition_schema: str | None = None
    """Partition columns of CONVERT with their types, as DDL text."""
    clone: CloneRequest | None = None
    """The new table of CLONE. `table` is its source."""
    field_change: FieldChange | None = None
    """The change of PARTITION FIELD."""
    call: ProcedureCall | None = None
    tag_request: TagStatement | None = None
    layout: LayoutStatement | None = None
    refused: tuple[str, str] | None = None
    """The name of a statement that is refused, and what to do instead."""


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
        return _refused(clear, outermost)
    spans = {name: found.span(name) for name, seen in found.groupdict().items() if seen is not None}
    part = {name: clear[start:end].strip() for name, (start, end) in spans.items()}
    if "procedure" in part:
        call = read_call(part["procedure"], part.get("arguments", ""))
        if call is None:
            return None
        return TableStatement(verb="CALL", table=call.table or "", call=call)
    if "purge" in part and part["purge"].upper() != "PURGE":
        return _refused(clear, outermost)
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
    layout = _layout(part) if part["verb"].upper() == "WRITE" else None
    number = {key: int(part[key]) if part.get(key) else None for key in ("limit", "version")}
    return TableStatement(
        verb=part["verb"].upper(),
        table=name,
        by_path="path" in part,
        where=part.get("where"),
        by=by,
        hours=float(part["hours"]) if part.get("hours") else None,
        dry_run=bool(part.get("dry")),
        timestamp=part.get("timestamp", part.get("moment")),
        full="full" in part,
        tag_request=_tag(part) if "make" in part else None,
        layout=layout,
        tag=_text(part["tag"]) if "tag" in part else None,
        format=part["format"].lower() if "format" in part else None,
        partition_schema=part.get("partitions"),
        clone=clone,
        field_change=change,
        limit=number["limit"],
        version=number["version"],
    )


def _refused(clear: str, outermost: str) -> TableStatement | None:
    """Return a statement that is refused by name; None for every other text."""
    for pattern, feature, instead in REFUSALS:
        match = pattern.fullmatch(outermost)
        if match is None:
            continue
        kind = "path" if match["path"] else "name"
        start, end = match.span(kind)
        written = clear[start:end].strip()
        name = _path_name(written) if kind == "path" else written
        if name is not None:
            return TableStatement(
                verb=feature, table=name, by_path=kind == "path", refused=(feature, instead)
            )
    return None


def _tag(part: Mapping[str, str]) -> TagStatement:
    made = part["make"].upper()
    return TagStatement(
        create=made.startswith("CREATE"),
        replace=made.endswith("REPLACE"),
        drop=made == "DROP",
        quiet="missing" in part or "there" in part,
        retain=part.get("retain"),
    )


def _layout(part: Mapping[str, str]) -> LayoutStatement:
    """Return the layout of ALTER TABLE … WRITE. Raises InvalidArgumentError for another order."""
    by: tuple[str, ...] | None = () if "unordered" in part else None
    if "order" in part:
        by = tuple(sort_columns(part["order"], "WRITE ORDERED BY")[0])
    return LayoutStatement(by=by, by_partition="distributed" in part)


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
