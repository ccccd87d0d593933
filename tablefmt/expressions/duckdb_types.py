"""Types of expressions as in Spark: the common type of two operands, and casts as DuckDB text.
Pure.

Every cast has the meaning of Spark's ANSI mode, or is refused by name. Where the engines differ for
some values, the text raises an error for these values. Times are UTC and carry no zone. Spec:
SQL-1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.ansi_comparisons import cast_text
from tablefmt.expressions.arrow_values import ConstantValue, Value, cast_value, null_of
from tablefmt.expressions.literals import text_to_decimal
from tablefmt.model.schema import Array, Decimal, Map, Primitive, Struct, Type, is_float, is_nested

DIGITS_MAX = 38

BOOLEAN, INTEGER, LONG = Primitive("boolean"), Primitive("integer"), Primitive("long")
FLOAT, DOUBLE, STRING = Primitive("float"), Primitive("double"), Primitive("string")
DATE, TIMESTAMP = Primitive("date"), Primitive("timestamp")

WITHOUT_ZONES: Mapping[str, str] = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
}
"""DuckDB's names of types that are not nested. Instants are wall-clock times in UTC."""

_RANK = {name: at for at, name in enumerate(("byte", "short", "integer", "long"))}
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})

_EXACT_DIGITS = 15
"""Digits up to which every whole number is exactly a double."""

_INFINITE_US = (1 << 63) - 1
"""µs that DuckDB reads as infinity, as it reads their negative."""

_WHOLE = r"[+-]?[0-9]+"
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_REAL = (
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    r"|(?i:nan|[+-]?inf|[+-]?infinity)"
)
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = _DAY + r"([ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_BLANK = r"[\x00-\x20\x7f]"
"""Characters that Spark's casts trim at both ends of a text."""
_BLANK_OF_FRACTIONS = r"[\x00-\x20]"
"""Characters that Spark's casts to decimals and floats trim."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Part of an expression: DuckDB text that can be an operand, and its Spark type."""

    sql: str
    type: Type | None
    """Spark type. None: NULL without a type yet."""
    digits: int | None = None
    """Number of digits, for a literal whole number."""
    text: str | None = None
    """Text, for a literal text."""
    arrow: Value | None = None
    """Arrow form of the same expression; None if only the engine can evaluate it."""


def duck_type(kind: Type) -> str:
    """Return DuckDB's name of a type that is not nested."""
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    assert isinstance(kind, Primitive)
    return WITHOUT_ZONES[kind.name]


def type_name(kind: Type) -> str:
    """Return `decimal` for any decimal, `array`, `map`, `struct`, else the name."""
    if isinstance(kind, Primitive):
        return kind.name
    names: dict[type, str] = {Decimal: "decimal", Array: "array", Map: "map", Struct: "struct"}
    return names[type(kind)]


def is_integer(kind: Type | None) -> bool:
    """Return True for byte, short, integer or long."""
    return isinstance(kind, Primitive) and kind.name in _RANK


def is_number(kind: Type | None) -> bool:
    """Return True for whole, decimal or floating numbers."""
    return kind is not None and (is_integer(kind) or isinstance(kind, Decimal) or is_float(kind))


def as_decimal(value: Typed) -> Decimal:
    """Return the decimal type that holds every value of a whole number's or decimal's type."""
    if isinstance(value.type, Decimal):
        return value.type
    assert isinstance(value.type, Primitive)
    return Decimal(value.digits or _INTEGER_DIGITS[value.type.name], 0)


def common_type(left: Typed, right: Typed, what: str) -> Type | None:
    """Return the type in which two values are compared or combined as branches; None if both are
    NULL.

    Raises:
        InvalidPredicateError: Spark has none. UnsupportedFeatureError: it needs too many digits.
    """
    one, two = left.type, right.type
    if one is None or two is None or one == two:
        return two if one is None else one
    if is_number(one) and is_number(two):
        return _common_number(left, right, what)
    names = {type_name(one), type_name(two)}
    if names <= _TIMES:
        return Primitive("timestamp" if "timestamp" in names else "timestamp_ntz")
    if "string" in names and not is_nested(one) and not is_nested(two) and "binary" not in names:
        other = two if type_name(one) == "string" else one
        if is_integer(other):
            return LONG
        return DOUBLE if is_number(other) else other
    raise InvalidPredicateError(f"{what}: {one} and {two} have no common type")


def common_of(values: Sequence[Typed], what: str) -> Type | None:
    """Return the common type of all values; None if all are NULL. Raises as `common_type`."""
    kind: Type | None = None
    for value in values:
        # The written length of a number matters only in arithmetic.
        bare = Typed("", value.type)
        kind = value.type if kind is None else common_type(Typed("", kind), bare, what)
    return kind


def _common_number(left: Typed, right: Typed, what: str) -> Type:
    one, two = left.type, right.type
    assert one is not None
    assert two is not None
    if is_float(one) or is_float(two):
        # Spark compares a whole number and a float as doubles, since a float would lose digits.
        return DOUBLE
    if isinstance(one, Primitive) and isinstance(two, Primitive):
        return one if _RANK[one.name] >= _RANK[two.name] else two
    return wider_decimal(as_decimal(left), as_decimal(right), what)


def wider_decimal(one: Decimal, two: Decimal, what: str) -> Decimal:
    """Return the type that holds all values of both.

    Raises:
        UnsupportedFeatureError: it needs more than 38 digits, where Spark rounds.
    """
    scale = max(one.scale, two.scale)
    digits = max(one.precision - one.scale, two.precision - two.scale) + scale
    if digits > DIGITS_MAX:
        raise UnsupportedFeatureError(
            f"{what} needs decimals of {digits} digits; at most 38 are supported",
            ["sql:decimal-digits"],
        )
    return Decimal(digits, scale)


def bounded_decimal(precision: int, scale: int) -> Decimal:
    """Return Spark's type for a result of this many digits: with fewer digits after the point if
    needed.
    """
    if precision <= DIGITS_MAX:
        return Decimal(precision, scale)
    kept = max(DIGITS_MAX - (precision - scale), min(scale, 6))
    return Decimal(DIGITS_MAX, kept)


def number_literal(text: str) -> Typed:
    """Return a number with Spark's type: the smallest of INT, BIGINT, DECIMAL; with E, DOUBLE.

    Raises:
        InvalidPredicateError: it is not a number, or has more than 38 digits.
    """
    try:
        value = text_to_decimal(text)
    except ValueError as error:
        raise InvalidPredicateError(f"{text[:80]}: {error}") from None
    if "e" in text.lower():
        real = ConstantValue(float(value), DOUBLE)
        return Typed(f"CAST('{float(value)!r}' AS DOUBLE)", DOUBLE, arrow=real)
    places = value.as_tuple()
    assert isinstance(places.exponent, int)
    digits = max(len(places.digits), -places.exponent)
    if "." not in text:
        digits = len(str(abs(int(value))))
        for kind, end in ((INTEGER, 1 << 31), (LONG, 1 << 63)):
            if -end <= value < end:
                sql = f"CAST({int(value)} AS {duck_type(kind)})"
                return Typed(sql, kind, digits, arrow=ConstantValue(int(value), kind))
    if digits > DIGITS_MAX:
        raise InvalidPredicateError(f"{text[:80]} has more than 38 digits")
    kind_ = Decimal(digits, max(0, -places.exponent))
    written = ConstantValue(value, kind_)
    return Typed(f"CAST('{value:f}' AS {duck_type(kind_)})", kind_, arrow=written)


def cast(value: Typed, target: Type) -> Typed:
    """Return `CAST(value AS target)`.

    Raises:
        InvalidPredicateError: Spark has no such cast. UnsupportedFeatureError: it is not supported.
    """
    if value.type == target:
        return value
    if is_nested(target):
        raise UnsupportedFeatureError(f"a cast to {target}", ["sql:cast"])
    if value.type is None:
        return Typed(f"CAST(NULL AS {duck_type(target)})", target, arrow=null_of(target))
    arrow = cast_value(value.arrow, value.type, target)
    return Typed(_cast(value, type_name(value.type), target), target, arrow=arrow)


def _cast(value: Typed, source: str, target: Type) -> str:
    name, sql = type_name(target), value.sql
    plain = f"CAST({sql} AS {duck_type(target)})"
    if source == "string":
        return _from_text(value, target)
    if name == "string":
        if source == "decimal" and _has_no_whole_digit(as_decimal(value)):
            # DuckDB omits the zero before the point.
            return f"regexp_replace({plain}, '^(-?)[.]', '\\10.')"
        if source == "date":
            return _date_text(sql, plain)
        if source in (*_RANK, "boolean", "decimal"):
            return plain
        raise _not_done(value, target)
    if source == "boolean" and is_number(target):
        return plain
    if name == "boolean" and is_number(value.type):
        return f"({sql} <> 0)"
    if source in _TIMES and name in _TIMES:
        # Without zones, an instant and a wall-clock time are the same number.
        return _of_times(sql, plain, name) if "date" in (source, name) else sql
    if is_number(value.type) and is_number(target):
        return _cast_number(value, source, target)
    if {source, name} & {"binary", "array", "map", "struct"} or "boolean" in (source, name):
        raise InvalidPredicateError(f"{value.type} cannot be cast to {target}")
    raise _not_done(value, target)


def at_ends(sql: str, ends: tuple[str, str], otherwise: str, kind: Primitive = DATE) -> str:
    """Return a function of a date or a time. DuckDB reads 2^31 - 1 days, 2^63 - 1 µs and their
    negatives as infinity.

    Args:
        sql: the date or time, of type `kind`.
        ends: the results for the positive and the negative one.
        otherwise: the result for every other value.
    """
    above = f"{sql} > CAST('1970-01-01' AS {duck_type(kind)})"
    return (
        f"(CASE WHEN isinf({sql}) THEN CASE WHEN {above} THEN {ends[0]} ELSE {ends[1]} END "
        f"ELSE {otherwise} END)"
    )


def date_of_days(days: str) -> str:
    """Return the date of a number of days since 1970-01-01; an error if it is out of range.

    DuckDB's sums of dates and days fail at the first and the last day, and leave infinity as it is.
    """
    return f"make_date(CAST({days} AS INTEGER))"


def days_of_date(date: str) -> str:
    """Return the days since 1970-01-01 of a date, as a BIGINT."""
    return f"({date} - CAST('1970-01-01' AS DATE))"


def _of_times(sql: str, plain: str, target: str) -> str:
    """Return a cast between dates and times."""
    if target != "date":
        return at_ends(sql, ("error('a date out of range')",) * 2, plain)
    ends = (date_of_days("106751991"), date_of_days("-106751992"))
    return at_ends(sql, ends, plain, TIMESTAMP)


def _date_text(sql: str, plain: str) -> str:
    """Return the text of a date. DuckDB writes years outside of 1 to 9999 in another form."""
    written = (
        f"format('{{}}{{:04d}}-{{:02d}}-{{:02d}}', CASE WHEN year({sql}) > 9999 THEN '+' "
        f"WHEN year({sql}) < 0 THEN '-' ELSE '' END, abs(year({sql})), month({sql}), day({sql}))"
    )
    usual = f"year({sql}) BETWEEN 1 AND 9999"
    other = at_ends(sql, ("'+5881580-07-11'", "'-5877641-06-24'"), written)
    return f"(CASE WHEN {usual} THEN {plain} ELSE {other} END)"


def _has_no_whole_digit(kind: Decimal) -> bool:
    return kind.precision == kind.scale


def _cast_number(value: Typed, source: str, target: Type) -> str:
    name, sql = type_name(target), value.sql
    plain = f"CAST({sql} AS {duck_type(target)})"
    floating = source in ("float", "double")
    if name in _RANK:
        if floating:
            return f"CAST(trunc({sql}) AS {duck_type(target)})"
        return f"CAST(trunc({sql}) AS {duck_type(target)})" if source == "decimal" else plain
    if name == "decimal":
        # Cast through the shortest text, because Spark rounds the decimal that people see.
        shown = f"CAST(CAST({sql} AS DOUBLE) AS VARCHAR)"
        return f"CAST({shown} AS {duck_type(target)})" if floating else plain
    if source == "decimal" and as_decimal(value).precision > _EXACT_DIGITS:
        plain = f"CAST(CAST({sql} AS VARCHAR) AS DOUBLE)"
        return plain if name == "double" else _to_float(plain)
    if name == "float" and source in ("double", "decimal"):
        return _to_float(f"CAST({sql} AS DOUBLE)")
    return plain


def _to_float(double: str) -> str:
    """Return a cast to float that maps numbers beyond the largest float to infinity, not to an
    error.
    """
    end = "CAST(3.4028235677973366e38 AS DOUBLE)"
    return (
        f"(CASE WHEN isfinite({double}) AND abs({double}) >= {end} "
        f"THEN CAST(CASE WHEN {double} > 0 THEN 'inf' ELSE '-inf' END AS FLOAT) "
        f"ELSE CAST({double} AS FLOAT) END)"
    )


def _from_text(value: Typed, target: Type) -> str:
    name = type_name(target)
    forms = {"decimal": _DECIMAL, "float": _REAL, "double": _REAL, "date": _DAY}
    forms |= dict.fromkeys(_RANK, _WHOLE) | dict.fromkeys(("timestamp", "timestamp_ntz"), _MOMENT)
    if name not in (*forms, "boolean"):
        raise InvalidPredicateError(f"{value.type} cannot be cast to {target}")
    if value.text is not None and name in (*_TIMES, "boolean"):
        return _constant(value.text, name)
    blank = _BLANK_OF_FRACTIONS if name in ("decimal", "float", "double") else _BLANK
    body = f"regexp_replace({value.sql}, '^{blank}+|{blank}+$', '', 'g')"
    if name == "boolean":
        return (
            f"(CASE WHEN {value.sql} IS NULL THEN NULL "
            f"WHEN lower({body}) IN ('t','true','y','yes','1') THEN TRUE "
            f"WHEN lower({body}) IN ('f','false','n','no','0') THEN FALSE "
            f"ELSE error('a text is not a valid boolean') END)"
        )
    parsed = f"CAST({body} AS {duck_type(target)})"
    if name == "float":
        parsed = _to_float(f"CAST({body} AS DOUBLE)")
    return (
        f"(CASE WHEN {value.sql} IS NULL THEN NULL WHEN regexp_full_match({body}, '{forms[name]}') "
        f"THEN {parsed} ELSE error('a text is not a valid {name}') END)"
    )


def _constant(text: str, name: str) -> str:
    """Return DuckDB text for a literal boolean, date or timestamp, in any form that Spark accepts.

    Raises:
        InvalidPredicateError: the text is invalid.
    """
    try:
        value = cast_text(text, name, "UTC").value
    except ValueError as error:
        raise InvalidPredicateError(f"{text[:80]!r} is not a {name}: {error}") from None
    if name == "boolean":
        return "TRUE" if value else "FALSE"
    if name == "date":
        return date_of_days(str(value))
    if abs(value) == _INFINITE_US:
        return f"CAST('{'-' if value < 0 else ''}infinity' AS TIMESTAMP)"
    return f"make_timestamp(CAST({value} AS BIGINT))"


def store_assigned(value: Typed, target: Type) -> Typed | None:
    """Return the value as a column of that type stores it; None if Spark's store assignment refuses
    it.

    Raises:
        UnsupportedFeatureError: the cast is not supported.
    """
    if value.type is None or value.type == target:
        return value if value.type == target else cast(value, target)
    if is_nested(value.type) or is_nested(target):
        return None
    source, name = type_name(value.type), type_name(target)
    numbers = is_number(value.type) and is_number(target)
    times = source in _TIMES and name in _TIMES
    texts = name == "string" and source != "binary"
    return cast(value, target) if numbers or times or texts else None


def _not_done(value: Typed, target: Type) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"a cast from {value.type} to {target} is not supported here", ["sql:cast"]
    )
