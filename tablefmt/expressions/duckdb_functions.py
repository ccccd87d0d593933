"""Arithmetic and functions from Spark's dialect to DuckDB's, typed as Spark types them. Pure.

Where the engines differ for some values, the text raises an error for these values. Spec: SQL-1,
SQL-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions import arrow_values, duckdb_types
from tablefmt.expressions.duckdb_operators import (
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
    DIGITS_MAX,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    Typed,
    as_decimal,
    bounded_decimal,
    cast,
    common_of,
    is_integer,
    is_number,
    type_name,
)
from tablefmt.model.schema import Decimal, Primitive, Type, is_float

_FLOATS = (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE)

_DIGITS_64 = 18
"""Maximum digits of decimals that DuckDB stores in 64 bits."""


def _numbers(node: exp.Expression, read: Read) -> tuple[Typed, Typed]:
    pair = read(node.this), read(node.expression)
    for value in pair:
        if value.type is not None and not is_number(value.type):
            if type_name(value.type) in ("date", "timestamp", "timestamp_ntz", "string"):
                raise refused(node, f"arithmetic with {value.type}", "arithmetic")
            raise InvalidPredicateError(f"{shown(node)}: expected a number, got {value.type}")
    one, two = (
        Typed(f"CAST(NULL AS {_null_like(other)})", _as_number(other))
        if value.type is None
        else value
        for value, other in (pair, pair[::-1])
    )
    return one, two


def _as_number(other: Typed) -> Type:
    return other.type or DOUBLE


def _null_like(other: Typed) -> str:
    return duckdb_types.duck_type(_as_number(other))


def _sum(sign: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        one, two = _numbers(node, read)
        if not _is_exact(one, two):
            return _same_type(one, sign, two, node)
        first, second = as_decimal(one), as_decimal(two)
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        kind = bounded_decimal(whole + scale + 1, scale)
        held = Decimal(min(DIGITS_MAX, whole + scale + 1), scale)
        left, right = (cast(side, held) for side in (one, two))
        return Typed(
            f"CAST(({left.sql} {sign} {right.sql}) AS {duckdb_types.duck_type(kind)})",
            kind,
            arrow=arrow_values.exact(left.arrow, sign, right.arrow, kind),
        )

    return write


def _product(node: exp.Mul, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if not _is_exact(one, two):
        return _same_type(one, "*", two, node)
    first, second = as_decimal(one), as_decimal(two)
    if first.precision + second.precision > DIGITS_MAX:
        raise refused(node, "a product of more than 38 digits", "decimal-digits")
    kind = bounded_decimal(first.precision + second.precision + 1, first.scale + second.scale)
    sides = [cast(one, first), cast(two, second)]
    arrow = arrow_values.exact(sides[0].arrow, "*", sides[1].arrow, kind)
    # DuckDB multiplies in 64 bits unless a side is wider.
    if first.precision + second.precision > _DIGITS_64 > max(first.precision, second.precision) - 1:
        sides[0] = cast(sides[0], Decimal(_DIGITS_64 + 1, first.scale))
    product = f"({sides[0].sql} * {sides[1].sql})"
    return Typed(f"CAST({product} AS {duckdb_types.duck_type(kind)})", kind, arrow=arrow)


def _is_exact(one: Typed, two: Typed) -> bool:
    """Return True if Spark computes in decimals."""
    either = isinstance(one.type, Decimal) or isinstance(two.type, Decimal)
    assert one.type is not None
    assert two.type is not None
    return either and not is_float(one.type) and not is_float(two.type)


def _same_type(one: Typed, sign: str, two: Typed, node: exp.Expression) -> Typed:
    kind = duckdb_types.common_type(one, two, shown(node))
    assert kind is not None
    left, right = cast(one, kind), cast(two, kind)
    arrow = None if sign == "%" else arrow_values.arithmetic(left.arrow, sign, right.arrow, kind)
    return Typed(f"({left.sql} {sign} {right.sql})", kind, arrow=arrow)


def _quotient(node: exp.Div, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if _is_exact(one, two):
        raise refused(node, "division of decimals", "decimal-division")
    left, right = (cast(side, DOUBLE) for side in (one, two))
    sql = _unless_zero([left.sql, right.sql], f"({left.sql} / {right.sql})")
    return Typed(sql, DOUBLE, arrow=arrow_values.quotient(left.arrow, right.arrow))


def _unless_zero(sides: list[str], otherwise: str) -> str:
    one, two = sides
    return (
        f"(CASE WHEN {two} = 0 AND {one} IS NOT NULL THEN error('division by zero') "
        f"ELSE {otherwise} END)"
    )


def _remainder(node: exp.Mod, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if _is_exact(one, two):
        held = duckdb_types.wider_decimal(as_decimal(one), as_decimal(two), shown(node))
        first, second = as_decimal(one), as_decimal(two)
        whole = min(first.precision - first.scale, second.precision - second.scale)
        kind: Type = Decimal(max(1, whole + held.scale), held.scale)
        sides = [cast(side, held).sql for side in (one, two)]
        remainder = f"CAST(({sides[0]} % {sides[1]}) AS {duckdb_types.duck_type(kind)})"
        return Typed(_unless_zero(sides, remainder), kind)
    made_ = _same_type(one, "%", two, node)
    assert made_.type is not None
    left, right = (cast(side, made_.type) for side in (one, two))
    arrow = arrow_values.remainder(left.arrow, right.arrow, made_.type)
    return Typed(_unless_zero([left.sql, right.sql], made_.sql), made_.type, arrow=arrow)


def _whole_quotient(node: exp.IntDiv, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if not is_integer(one.type) or not is_integer(two.type):
        raise refused(node, "DIV of numbers that are not whole", "div")
    left, right = (cast(side, LONG) for side in (one, two))
    sql = _unless_zero([left.sql, right.sql], f"({left.sql} // {right.sql})")
    return Typed(sql, LONG, arrow=arrow_values.quotient(left.arrow, right.arrow))


def _negative(node: exp.Neg, read: Read) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return duckdb_types.number_literal("-" + node.this.this)
    if _is_suffixed(node.this):
        # The sign belongs to the number: -128Y is a TINYINT, but 128Y is not.
        signed = node.this.copy()
        signed.this.set("this", "-" + signed.this.this)
        return read(signed)
    value = read(node.this)
    if not is_number(value.type):
        raise InvalidPredicateError(f"{shown(node)}: expected a number, got {value.type}")
    arrow = arrow_values.negative(value.arrow, value.type)
    if value.type is not None and is_integer(value.type):
        # As in Spark, the lowest number has no negative, so negating it fails.
        zero = f"CAST(0 AS {duckdb_types.duck_type(value.type)})"
        return Typed(f"({zero} - {value.sql})", value.type, arrow=arrow)
    return Typed(f"(-{value.sql})", value.type, arrow=arrow)


def _is_suffixed(node: exp.Expression) -> bool:
    """Return True for a number with a suffix for its exact type, which the parser returns as a
    cast.

    Suffixes of floats are excluded: a decimal has no -0.0.
    """
    inner = node.this if isinstance(node, exp.Cast) else None
    exact = node.to.this not in _FLOATS if isinstance(node, exp.Cast) else False
    return exact and isinstance(inner, exp.Literal) and not inner.is_string


def _absolute(node: exp.Abs, read: Read) -> Typed:
    value = _number(node, read)
    arrow = arrow_values.absolute(value.arrow, value.type)
    return Typed(f"abs({value.sql})", value.type, arrow=arrow)


def _number(node: exp.Expression, read: Read) -> Typed:
    value = read(node.this)
    if not is_number(value.type):
        raise InvalidPredicateError(f"{shown(node)} needs a number")
    return value


def _to_whole(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        value = _number(node, read)
        if isinstance(value.type, Decimal) or node.args.get("decimals") or node.args.get("to"):
            raise refused(node, f"{function} of decimals", function)
        if is_integer(value.type):
            return cast(value, LONG)
        return Typed(f"CAST({function}({cast(value, DOUBLE).sql}) AS BIGINT)", LONG)

    return write


def _round(node: exp.Round, read: Read) -> Typed:
    value, places = _number(node, read), node.args.get("decimals")
    digits = 0 if places is None else read(places)
    count = digits if isinstance(digits, int) else _small(places, digits)
    if node.args.get("truncate") or count is None or is_integer(value.type):
        raise refused(node, "this rounding", "round")
    if isinstance(value.type, Decimal):
        if count >= value.type.scale:
            return value
        kind = Decimal(value.type.precision - value.type.scale + count + 1, count)
        return cast(value, kind)
    assert value.type is not None
    double = cast(value, DOUBLE).sql
    shown = f"CAST(CAST({double} AS VARCHAR) AS DECIMAL(38,{count}))"
    rounded = f"CASE WHEN isfinite({double}) THEN CAST(CAST({shown} AS VARCHAR) AS DOUBLE)"
    return cast(Typed(f"({rounded} ELSE {double} END)", DOUBLE), value.type)


def _small(node: Any, value: Typed) -> int | None:
    """Return a literal number from 0 to 30."""
    while isinstance(node, exp.Paren):
        node = node.this
    plain = isinstance(node, exp.Literal) and not node.is_string and is_integer(value.type)
    return int(node.this) if plain and int(node.this) <= 30 else None


ARITHMETIC: Mapping[type[exp.Expression], Write] = {
    exp.Add: _sum("+"),
    exp.Sub: _sum("-"),
    exp.Mul: _product,
    exp.Div: _quotient,
    exp.Mod: _remainder,
    exp.IntDiv: _whole_quotient,
    exp.Neg: _negative,
    exp.Abs: _absolute,
    exp.Floor: _to_whole("floor"),
    exp.Ceil: _to_whole("ceil"),
    exp.Round: _round,
}
"""Translators by construct."""


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


def _date_part(function: str, ends: tuple[str, str]) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        date = _as_date(node.this, read).sql
        part = duckdb_types.at_ends(date, ends, f"{function}({date})")
        return Typed(f"CAST({part} AS INTEGER)", INTEGER)

    return write


def _hour(node: exp.Hour, read: Read) -> Typed:
    moment = read(node.this)
    if moment.type is None or type_name(moment.type) not in ("timestamp", "timestamp_ntz"):
        raise refused(node, f"the hour of {moment.type}", "hour")
    sql, ends = moment.sql, ("4", "19")
    part = duckdb_types.at_ends(sql, ends, f"hour({sql})", duckdb_types.TIMESTAMP)
    return Typed(f"CAST({part} AS INTEGER)", INTEGER)


def _date_add(node: exp.TsOrDsAdd, read: Read) -> Typed:
    unit = node.args.get("unit")
    if unit is not None and str(unit).upper() not in ("DAY", "'DAY'"):
        raise refused(node, f"adding {unit}", "date_add")
    date, days = _as_date(node.this, read), read(node.expression)
    if days.type is not None and not is_integer(days.type):
        raise InvalidPredicateError(f"{shown(node)}: expected a number of days, got {days.type}")
    sum_ = f"{duckdb_types.days_of_date(date.sql)} + {cast(days, INTEGER).sql}"
    return Typed(duckdb_types.date_of_days(sum_), DATE)


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
    exp.Year: _date_part("year", ("5881580", "-5877641")),
    exp.Month: _date_part("month", ("7", "6")),
    exp.Day: _date_part("day", ("11", "24")),
    exp.Hour: _hour,
    exp.TsOrDsAdd: _date_add,
    exp.DateDiff: _date_difference,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Nvl2: _nvl2,
    exp.Anonymous: _anonymous,
}
"""Translators by construct."""
