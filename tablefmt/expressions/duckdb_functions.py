"""Arithmetic and functions from Spark's dialect to DuckDB's, typed as Spark types them. Pure.

Where values decide whether the engines agree, the text raises an error for those on which they do
not. Spec: SQL-1, SQL-2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import duckdb_types
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
"""Of decimals that DuckDB keeps in 64 bits."""

Read = Callable[[Any], Typed]
"""Reads an operand."""


def _said(node: exp.Expression) -> str:
    return str(node.sql("spark"))[:200]


def _refused(node: exp.Expression, why: str, feature: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{_said(node)}: {why} is not carried out here; with Spark it is", [f"sql:{feature}"]
    )


# --- arithmetic ----------------------------------------------------------------------------------


def _numbers(node: exp.Expression, read: Read) -> tuple[Typed, Typed]:
    pair = read(node.this), read(node.expression)
    for value in pair:
        if value.type is not None and not is_number(value.type):
            if type_name(value.type) in ("date", "timestamp", "timestamp_ntz", "string"):
                raise _refused(node, f"arithmetic with {value.type}", "arithmetic")
            raise InvalidPredicateError(f"{_said(node)}: {value.type} is no number")
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


def _sum(sign: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        one, two = _numbers(node, read)
        if not _is_exact(one, two):
            return _same_type(one, sign, two, node)
        first, second = as_decimal(one), as_decimal(two)
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        kind = bounded_decimal(whole + scale + 1, scale)
        held = Decimal(min(DIGITS_MAX, whole + scale + 1), scale)
        sides = [cast(side, held).sql for side in (one, two)]
        return Typed(
            f"CAST(({sides[0]} {sign} {sides[1]}) AS {duckdb_types.duck_type(kind)})", kind
        )

    return made


def _product(node: exp.Mul, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if not _is_exact(one, two):
        return _same_type(one, "*", two, node)
    first, second = as_decimal(one), as_decimal(two)
    if first.precision + second.precision > DIGITS_MAX:
        raise _refused(node, "a product of more than 38 digits", "decimal-digits")
    kind = bounded_decimal(first.precision + second.precision + 1, first.scale + second.scale)
    # DuckDB multiplies in 64 bits unless a side is wider.
    sides = [cast(one, first), cast(two, second)]
    if first.precision + second.precision > _DIGITS_64 > max(first.precision, second.precision) - 1:
        sides[0] = cast(sides[0], Decimal(_DIGITS_64 + 1, first.scale))
    made = f"({sides[0].sql} * {sides[1].sql})"
    return Typed(f"CAST({made} AS {duckdb_types.duck_type(kind)})", kind)


def _is_exact(one: Typed, two: Typed) -> bool:
    """Whether Spark computes in decimals."""
    either = isinstance(one.type, Decimal) or isinstance(two.type, Decimal)
    assert one.type is not None
    assert two.type is not None
    return either and not is_float(one.type) and not is_float(two.type)


def _same_type(one: Typed, sign: str, two: Typed, node: exp.Expression) -> Typed:
    kind = duckdb_types.common_type(one, two, _said(node))
    assert kind is not None
    return Typed(f"({cast(one, kind).sql} {sign} {cast(two, kind).sql})", kind)


def _quotient(node: exp.Div, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if _is_exact(one, two):
        raise _refused(node, "division of decimals", "decimal-division")
    sides = [cast(side, DOUBLE).sql for side in (one, two)]
    return Typed(_unless_zero(sides, f"({sides[0]} / {sides[1]})"), DOUBLE)


def _unless_zero(sides: list[str], made: str) -> str:
    one, two = sides
    return (
        f"(CASE WHEN {two} = 0 AND {one} IS NOT NULL THEN error('division by zero') "
        f"ELSE {made} END)"
    )


def _remainder(node: exp.Mod, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if _is_exact(one, two):
        held = duckdb_types.wider_decimal(as_decimal(one), as_decimal(two), _said(node))
        first, second = as_decimal(one), as_decimal(two)
        whole = min(first.precision - first.scale, second.precision - second.scale)
        kind: Type = Decimal(max(1, whole + held.scale), held.scale)
        sides = [cast(side, held).sql for side in (one, two)]
        made = f"CAST(({sides[0]} % {sides[1]}) AS {duckdb_types.duck_type(kind)})"
        return Typed(_unless_zero(sides, made), kind)
    made_ = _same_type(one, "%", two, node)
    assert made_.type is not None
    sides = [cast(side, made_.type).sql for side in (one, two)]
    return Typed(_unless_zero(sides, made_.sql), made_.type)


def _whole_quotient(node: exp.IntDiv, read: Read) -> Typed:
    one, two = _numbers(node, read)
    if not is_integer(one.type) or not is_integer(two.type):
        raise _refused(node, "DIV of what is not whole", "div")
    sides = [cast(side, LONG).sql for side in (one, two)]
    return Typed(_unless_zero(sides, f"({sides[0]} // {sides[1]})"), LONG)


def _negative(node: exp.Neg, read: Read) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return duckdb_types.number_literal("-" + node.this.this)
    if _is_suffixed(node.this):
        # The sign belongs to the number: -128Y is a TINYINT though 128 is none.
        signed = node.this.copy()
        signed.this.set("this", "-" + signed.this.this)
        return read(signed)
    value = read(node.this)
    if not is_number(value.type):
        raise InvalidPredicateError(f"{_said(node)}: {value.type} is no number")
    if value.type is not None and is_integer(value.type):
        # So that the lowest number has no opposite, as in Spark.
        zero = f"CAST(0 AS {duckdb_types.duck_type(value.type)})"
        return Typed(f"({zero} - {value.sql})", value.type)
    return Typed(f"(-{value.sql})", value.type)


def _is_suffixed(node: exp.Expression) -> bool:
    """Whether it is a number with a suffix for its exact type, which comes as a cast.

    Not one of a float: a decimal has no -0.0.
    """
    inner = node.this if isinstance(node, exp.Cast) else None
    exact = node.to.this not in _FLOATS if isinstance(node, exp.Cast) else False
    return exact and isinstance(inner, exp.Literal) and not inner.is_string


def _absolute(node: exp.Abs, read: Read) -> Typed:
    value = _number(node, read)
    return Typed(f"abs({value.sql})", value.type)


def _number(node: exp.Expression, read: Read) -> Typed:
    value = read(node.this)
    if not is_number(value.type):
        raise InvalidPredicateError(f"{_said(node)} needs a number")
    return value


def _to_whole(function: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        value = _number(node, read)
        if isinstance(value.type, Decimal) or node.args.get("decimals") or node.args.get("to"):
            raise _refused(node, f"{function} of decimals", function)
        if is_integer(value.type):
            return cast(value, LONG)
        return Typed(f"CAST({function}({cast(value, DOUBLE).sql}) AS BIGINT)", LONG)

    return made


def _round(node: exp.Round, read: Read) -> Typed:
    value, places = _number(node, read), node.args.get("decimals")
    digits = 0 if places is None else read(places)
    count = digits if isinstance(digits, int) else _small(places, digits)
    if node.args.get("truncate") or count is None or is_integer(value.type):
        raise _refused(node, "this rounding", "round")
    if isinstance(value.type, Decimal):
        if count >= value.type.scale:
            return value
        kind = Decimal(value.type.precision - value.type.scale + count + 1, count)
        return cast(value, kind)
    assert value.type is not None
    double = cast(value, DOUBLE).sql
    shown = f"CAST(CAST({double} AS VARCHAR) AS DECIMAL(38,{count}))"
    made = f"CASE WHEN isfinite({double}) THEN CAST(CAST({shown} AS VARCHAR) AS DOUBLE)"
    return cast(Typed(f"({made} ELSE {double} END)", DOUBLE), value.type)


def _small(node: Any, value: Typed) -> int | None:
    """A number written out, from 0 to 30."""
    while isinstance(node, exp.Paren):
        node = node.this
    plain = isinstance(node, exp.Literal) and not node.is_string and is_integer(value.type)
    return int(node.this) if plain and int(node.this) <= 30 else None


# --- texts ---------------------------------------------------------------------------------------


def _texts(node: exp.Expression, read: Read, *parts: Any) -> list[str]:
    made = [read(part) for part in parts]
    for part in made:
        if part.type is not None and part.type != STRING:
            raise _refused(node, f"{part.type} as a text", "text")
    return [part.sql if part.type else "CAST(NULL AS VARCHAR)" for part in made]


def _joined(node: exp.Expression, read: Read) -> Typed:
    parts = node.expressions if isinstance(node, exp.Concat) else (node.this, node.expression)
    if not parts or node.args.get("coalesce"):
        raise _refused(node, "this concatenation", "concat")
    made = []
    for part in parts:
        value = read(part)
        if value.type is not None and type_name(value.type) in ("binary", "array"):
            raise _refused(node, f"{value.type} as a text", "text")
        made.append(cast(value, STRING).sql)
    return Typed("(" + " || ".join(made) + ")", STRING)


def _letters(function: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        (value,) = _texts(node, read, node.this)
        # Java and DuckDB map letters beyond ASCII in different ways.
        return Typed(
            f"(CASE WHEN {value} IS NULL OR strlen({value}) = length({value}) "
            f"THEN {function}({value}) ELSE error('{function} of a text beyond ASCII') END)",
            STRING,
        )

    return made


def _trim(node: exp.Trim, read: Read) -> Typed:
    if node.expression is not None or node.args.get("collation"):
        raise _refused(node, "TRIM of given letters", "trim")
    (value,) = _texts(node, read, node.this)
    position = str(node.args.get("position") or "BOTH").upper()
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if function is None:
        raise _refused(node, "this TRIM", "trim")
    return Typed(f"{function}({value}, ' ')", STRING)


def _length(node: exp.Length, read: Read) -> Typed:
    (value,) = _texts(node, read, node.this)
    return Typed(f"CAST(length({value}) AS INTEGER)", INTEGER)


def _substring(node: exp.Substring, read: Read) -> Typed:
    (value,) = _texts(node, read, node.this)
    begin, count = node.args.get("start"), node.args.get("length")
    first = None if begin is None else _small_or_more(begin)
    if first is None or first < 1:
        raise _refused(node, "a position that is not written out, from 1 on,", "substring")
    if count is None:
        return Typed(f"substring({value}, {first})", STRING)
    length = _small_or_more(count)
    if length is None:
        raise _refused(node, "a length that is not written out", "substring")
    return Typed(f"substring({value}, {first}, {length})", STRING)


def _small_or_more(node: Any) -> int | None:
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal():
        return min(int(node.this), 2**31 - 1)
    return None


def _ends(function: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        (value,) = _texts(node, read, node.this)
        count = _small_or_more(node.expression)
        if count is None:
            raise _refused(node, "a length that is not written out", function)
        return Typed(f"{function}({value}, {count})", STRING)

    return made


def _replace(node: exp.Replace, read: Read) -> Typed:
    other = node.args.get("replacement")
    if other is None:
        raise _refused(node, "this REPLACE", "replace")
    value, old, new = _texts(node, read, node.this, node.expression, other)
    # Spark leaves a text as it is if nothing is searched for.
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
        raise InvalidPredicateError(f"{_said(node)}: {value.type} is no date")
    return cast(value, DATE)


def _to_date(node: exp.TsOrDsToDate, read: Read) -> Typed:
    if node.args.get("format"):
        raise _refused(node, "a date of another form", "to_date")
    return _as_date(node.this, read)


def _date_part(function: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        date = _as_date(node.this, read)
        return Typed(f"CAST({function}({date.sql}) AS INTEGER)", INTEGER)

    return made


def _date_add(node: exp.TsOrDsAdd, read: Read) -> Typed:
    unit = node.args.get("unit")
    if unit is not None and str(unit).upper() not in ("DAY", "'DAY'"):
        raise _refused(node, f"adding {unit}", "date_add")
    date, days = _as_date(node.this, read), read(node.expression)
    if days.type is not None and not is_integer(days.type):
        raise InvalidPredicateError(f"{_said(node)}: {days.type} is no number of days")
    return Typed(f"({date.sql} + {cast(days, INTEGER).sql})", DATE)


def _date_difference(node: exp.DateDiff, read: Read) -> Typed:
    if node.args.get("unit") and str(node.args["unit"]).upper() not in ("DAY", "'DAY'"):
        raise _refused(node, "a difference in other units", "datediff")
    one, two = _as_date(node.this, read), _as_date(node.expression, read)
    return Typed(f"CAST(({one.sql} - {two.sql}) AS INTEGER)", INTEGER)


# --- choices -------------------------------------------------------------------------------------


def _extreme(function: str) -> Callable[[Any, Read], Typed]:
    def made(node: exp.Expression, read: Read) -> Typed:
        values = [read(part) for part in (node.this, *node.expressions)]
        kind = common_of(values, _said(node))
        if kind is None:
            return Typed("NULL", None)
        if not isinstance(kind, Primitive | Decimal):
            raise _refused(node, f"{function} of {kind}", function)
        return Typed(f"{function}({', '.join(cast(v, kind).sql for v in values)})", kind)

    return made


def _nvl2(node: exp.Nvl2, read: Read) -> Typed:
    test = read(node.this)
    values = [read(node.args[name]) for name in ("true", "false")]
    kind = common_of(values, _said(node))
    made = [value.sql if kind is None else cast(value, kind).sql for value in values]
    return Typed(f"(CASE WHEN {test.sql} IS NOT NULL THEN {made[0]} ELSE {made[1]} END)", kind)


def _anonymous(node: exp.Anonymous, read: Read) -> Typed:
    name = str(node.this).lower()
    if name in ("isnull", "isnotnull") and len(node.expressions) == 1:
        word = "IS NULL" if name == "isnull" else "IS NOT NULL"
        return Typed(f"({read(node.expressions[0]).sql} {word})", BOOLEAN)
    raise _refused(node, f"function {name}", name)


FUNCTIONS: dict[type[exp.Expression], Callable[[Any, Read], Typed]] = {
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
    exp.Concat: _joined,
    exp.DPipe: _joined,
    exp.Upper: _letters("upper"),
    exp.Lower: _letters("lower"),
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
"""By construct, what makes its text."""
