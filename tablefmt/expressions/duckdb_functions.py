"""Functions from Spark's dialect to DuckDB's, typed as Spark types them. Pure.

Where the engines differ for some values, the text raises an error for these values. Spec: SQL-1,
SQL-2.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions import arrow_values
from tablefmt.expressions.duckdb_arithmetic import ARITHMETIC
from tablefmt.expressions.duckdb_operands import (
    Read,
    Write,
    refused,
    shown,
    small,
    texts,
    unknown_function,
)
from tablefmt.expressions.duckdb_types import (
    BOOLEAN,
    DATE,
    INTEGER,
    STRING,
    Typed,
    cast,
    common_of,
    is_integer,
    type_name,
)
from tablefmt.model.schema import Decimal, Primitive

# --- texts ---------------------------------------------------------------------------------------


def _joined(node: exp.Expression, read: Read) -> Typed:
    parts = node.expressions if isinstance(node, exp.Concat) else (node.this, node.expression)
    if not parts or node.args.get("coalesce"):
        raise refused(node, "this concatenation", "concat")
    parts_as_text = []
    for part in parts:
        value = read(part)
        if value.type is not None and type_name(value.type) in ("binary", "array"):
            raise refused(node, f"{value.type} as a text", "text")
        parts_as_text.append(cast(value, STRING).sql)
    return Typed("(" + " || ".join(parts_as_text) + ")", STRING)


def _letters(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        (value,) = texts(node, read, node.this)
        # Java and DuckDB convert letters beyond ASCII in different ways.
        return Typed(
            f"(CASE WHEN {value} IS NULL OR strlen({value}) = length({value}) "
            f"THEN {function}({value}) ELSE error('{function} of a text beyond ASCII') END)",
            STRING,
        )

    return write


def _md5(node: exp.MD5, read: Read) -> Typed:
    (value,) = texts(node, read, node.this)
    # Both engines hash the UTF-8 bytes and return lower-case digits.
    return Typed(f"md5({value})", STRING)


def _trim(node: exp.Trim, read: Read) -> Typed:
    if node.expression is not None or node.args.get("collation"):
        raise refused(node, "TRIM of given letters", "trim")
    (value,) = texts(node, read, node.this)
    position = str(node.args.get("position") or "BOTH").upper()
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if function is None:
        raise refused(node, "this TRIM", "trim")
    return Typed(f"{function}({value}, ' ')", STRING)


def _length(node: exp.Length, read: Read) -> Typed:
    (value,) = texts(node, read, node.this)
    return Typed(f"CAST(length({value}) AS INTEGER)", INTEGER)


def _substring(node: exp.Substring, read: Read) -> Typed:
    (value,) = texts(node, read, node.this)
    begin, count = node.args.get("start"), node.args.get("length")
    first = None if begin is None else small(begin)
    if first is None or first < 1:
        raise refused(node, "a position that is not a literal of 1 or more", "substring")
    if count is None:
        return Typed(f"substring({value}, {first})", STRING)
    length = small(count)
    if length is None:
        raise refused(node, "a length that is not a literal", "substring")
    return Typed(f"substring({value}, {first}, {length})", STRING)


def _ends(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        (value,) = texts(node, read, node.this)
        count = small(node.expression)
        if count is None:
            raise refused(node, "a length that is not a literal", function)
        return Typed(f"{function}({value}, {count})", STRING)

    return write


def _replace(node: exp.Replace, read: Read) -> Typed:
    other = node.args.get("replacement")
    if other is None:
        raise refused(node, "this REPLACE", "replace")
    value, old, new = texts(node, read, node.this, node.expression, other)
    # Spark returns the text unchanged if the search text is empty.
    return Typed(
        f"(CASE WHEN {old} = '' THEN {value} ELSE replace({value}, {old}, {new}) END)", STRING
    )


# --- times ---------------------------------------------------------------------------------------


def _as_date(node: exp.Expression, read: Read) -> Typed:
    value = read(node)
    if value.type is not None and type_name(value.type) not in (
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
    ):
        raise InvalidPredicateError(f"{shown(node)}: expected a date, got {value.type}")
    return cast(value, DATE)


def _to_date(node: exp.TsOrDsToDate, read: Read) -> Typed:
    if node.args.get("format"):
        raise refused(node, "a date of another form", "to_date")
    return _as_date(node.this, read)


def _date_part(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        date = _as_date(node.this, read)
        return Typed(f"CAST({function}({date.sql}) AS INTEGER)", INTEGER)

    return write


def _date_add(node: exp.TsOrDsAdd, read: Read) -> Typed:
    unit = node.args.get("unit")
    if unit is not None and str(unit).upper() not in ("DAY", "'DAY'"):
        raise refused(node, f"adding {unit}", "date_add")
    date, days = _as_date(node.this, read), read(node.expression)
    if days.type is not None and not is_integer(days.type):
        raise InvalidPredicateError(f"{shown(node)}: expected a number of days, got {days.type}")
    return Typed(f"({date.sql} + {cast(days, INTEGER).sql})", DATE)


def _date_difference(node: exp.DateDiff, read: Read) -> Typed:
    if node.args.get("unit") and str(node.args["unit"]).upper() not in ("DAY", "'DAY'"):
        raise refused(node, "a difference in other units", "datediff")
    one, two = _as_date(node.this, read), _as_date(node.expression, read)
    return Typed(f"CAST(({one.sql} - {two.sql}) AS INTEGER)", INTEGER)


# --- choices -------------------------------------------------------------------------------------


def _extreme(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        values = [read(part) for part in (node.this, *node.expressions)]
        kind = common_of(values, shown(node))
        if kind is None:
            return Typed("NULL", None)
        if not isinstance(kind, Primitive | Decimal):
            raise refused(node, f"{function} of {kind}", function)
        return Typed(f"{function}({', '.join(cast(v, kind).sql for v in values)})", kind)

    return write


def _nvl2(node: exp.Nvl2, read: Read) -> Typed:
    test = read(node.this)
    values = [read(node.args[name]) for name in ("true", "false")]
    kind = common_of(values, shown(node))
    branches = [value.sql if kind is None else cast(value, kind).sql for value in values]
    return Typed(
        f"(CASE WHEN {test.sql} IS NOT NULL THEN {branches[0]} ELSE {branches[1]} END)", kind
    )


def _anonymous(node: exp.Anonymous, read: Read) -> Typed:
    name = str(node.this).lower()
    if name in ("isnull", "isnotnull") and len(node.expressions) == 1:
        word = "IS NULL" if name == "isnull" else "IS NOT NULL"
        value = read(node.expressions[0])
        arrow = arrow_values.call("is_null" if name == "isnull" else "is_valid", value.arrow)
        return Typed(f"({value.sql} {word})", BOOLEAN, arrow=arrow)
    raise unknown_function(node, name)


FUNCTIONS: Mapping[type[exp.Expression], Write] = {
    **ARITHMETIC,
    exp.Concat: _joined,
    exp.DPipe: _joined,
    exp.Upper: _letters("upper"),
    exp.Lower: _letters("lower"),
    exp.MD5: _md5,
    exp.Trim: _trim,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _ends("left"),
    exp.Right: _ends("right"),
    exp.Replace: _replace,
    exp.TsOrDsToDate: _to_date,
    exp.Year: _date_part("year"),
    exp.Month: _date_part("month"),
    exp.Day: _date_part("day"),
    exp.TsOrDsAdd: _date_add,
    exp.DateDiff: _date_difference,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Nvl2: _nvl2,
    exp.Anonymous: _anonymous,
}
"""Translators by construct."""
