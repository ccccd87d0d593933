"""Bound of the values that an expression of the log makes. Pure.

A short text can ask for a large value: a count as an argument, or functions that multiply their
operand and nest. The bound of each value is a sum: a constant, plus a multiple of the row, plus
multiples of lambda parameters. A product of two such sums without a constant is refused, because
it grows with the square of a row. Spec: SQL-6.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.constraint_tokens import END, Cursor, Token
from tablefmt.expressions.sql_vocabulary import PURE_FUNCTIONS, words
from tablefmt.model.name_matching import folded

CONSTANT_MAX = 65_536
"""Maximum characters, bytes or elements of a value beyond multiples of its row."""

MULTIPLE_MAX = 256
"""Maximum multiple of the row's own length."""

DIGITS_MAX = 400
"""Maximum number of digits to which a number is rounded."""

_SIZED = words("""
    base64 btrim concat array array_append array_compact array_distinct array_except
    array_intersect array_max array_min array_prepend array_remove array_sort
    array_union arrays_zip binary decode element_at filter flatten get initcap
    json_object_keys lcase left lower ltrim map map_concat map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values mask named_struct overlay parse_url regexp_extract
    regexp_substr reverse right rtrim slice sort_array soundex split split_part
    str_to_map struct substr substring substring_index to_binary translate trim try_element_at
    try_parse_url try_to_binary try_url_decode ucase unbase64 unhex upper url_decode
""")
"""Functions whose value is at most as long as their operands together, or four thirds of it."""

_CHOOSING = words("coalesce elt greatest ifnull least nanvl nullif nvl")
"""Functions whose value is one of their operands."""

_FACTORS: Mapping[str, int] = {
    "cast": 2, "encode": 4, "get_json_object": 6, "hex": 2, "schema_of_json": 8, "string": 2,
    "to_json": 8, "try_cast": 2, "url_encode": 3,
    "date_format": 16, "from_unixtime": 16, "to_char": 16, "to_varchar": 16,
}  # fmt: skip
"""Functions whose value is at most so many times as long as their operands."""

_COUNTS: Mapping[str, int] = {
    "array_insert": 1, "array_repeat": 1, "format_number": 1, "lpad": 1, "repeat": 1, "rpad": 1,
    "sequence": 0, "space": 0,
}  # fmt: skip
"""Functions with a count, and the place of this argument."""

_ROUNDING = words("bround ceil ceiling floor round")
_PATTERNS = words("regexp_extract_all regexp_replace")
_OTHERS = words("""
    aggregate array_join concat_ws format_string from_json if map_zip_with nvl2 printf reduce
    replace transform transform_keys transform_values zip_with
""")
_FIXED = (
    PURE_FUNCTIONS
    - _SIZED - _CHOOSING - _FACTORS.keys() - _COUNTS.keys() - _ROUNDING - _PATTERNS - _OTHERS
)  # fmt: skip
"""Functions whose value is a number, a boolean, a time, a digest, or as short as these."""

_FIXING = words("""
    + - * / % & ^ ~ ! = == != <> < <= > >= <=> AND OR NOT DIV IN BETWEEN LIKE ILIKE RLIKE REGEXP IS
""")
"""Words and signs after which a value is a number, a boolean or a time."""

_ONE: Mapping[str, int] = {"": 1}
"""Size of a number, a boolean or a time, and of one element."""

_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_CONVERSION = re.compile(r"%(?:(\d+)\$)?[^a-zA-Z%]*[a-zA-Z%]")

_Size = Mapping[str, int]
"""Multiple of each part: `""` for the constant, `row`, and lambda parameters."""

_ROW = "row"


@dataclass(frozen=True, slots=True)
class _Value:
    size: _Size
    number: int | None = None
    """The number, if the text is only a whole number."""
    text: str | None = None
    """The text, if it is only one literal."""


_Item = tuple[tuple[str, ...], _Value]
"""Parameters of a lambda function, and the value of its body; no parameters for another value."""


def check_growth(cursor: Cursor) -> None:
    """Refuse an expression whose values may be far larger than its row.

    Args:
        cursor: behind an expression that the grammar accepts.

    Raises:
        UnsupportedFeatureError: `sql:size`; the message names the function.
    """
    if any(token.kind == "word" and token.text.lower() in _GROWING for token in cursor.tokens):
        tokens = enumerate(cursor.tokens)
        arrows = {at for at, token in tokens if token.kind == "sign" and token.text == "->"}
        _Reader(cursor.tokens, cursor.columns, frozenset(arrows)).items({})


def _refused(name: str, why: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"{name}() may make a value that is far larger than its row: {why}", ["sql:size"]
    )


def _plus(sizes: Collection[_Size]) -> dict[str, int]:
    total: dict[str, int] = {}
    for size in sizes:
        for part, multiple in size.items():
            total[part] = total.get(part, 0) + multiple
    return total


def _most(sizes: Collection[_Size]) -> dict[str, int]:
    total: dict[str, int] = {}
    for size in sizes:
        for part, multiple in size.items():
            total[part] = max(total.get(part, 0), multiple)
    return total


def _times(name: str, one: _Size, two: _Size) -> dict[str, int]:
    if one.keys() - {""}:
        one, two = two, one
    if one.keys() - {""} and two:
        _refused(name, "two of its arguments grow with the row, and the value with their product")
    return {part: multiple * one.get("", 0) for part, multiple in two.items()}


@dataclass(slots=True)
class _Reader:
    """Recursive reader of tokens that the grammar accepts."""

    tokens: Sequence[Token]
    columns: Collection[str]
    arrows: frozenset[int]
    """Places of the arrows of lambda functions."""
    at: int = 0

    def items(self, known: Mapping[str, _Size]) -> list[_Item]:
        """Read to the closing bracket of this level. Return what the commas separate."""
        found = []
        while True:
            names = self._parameters()
            found.append((names, self._item({**known, **{name: {name: 1} for name in names}})))
            token = self._token()
            self.at += 1
            if token.text != ",":
                return found

    def _token(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else END

    def _parameters(self) -> tuple[str, ...]:
        """Return the parameters of the lambda function that begins here, in order."""
        begin, end = self.at, self.at + 1
        if self._token().kind == "sign" and self._token().text == "(":
            while end < len(self.tokens) and self.tokens[end].text != ")":
                end += 1
            begin, end = begin + 1, end + 1
        if end not in self.arrows:
            return ()
        self.at = end + 1
        inside = self.tokens[begin:end]
        return tuple(folded(token.text) for token in inside if token.kind in ("word", "quoted"))

    def _item(self, known: Mapping[str, _Size]) -> _Value:
        """Read to the next comma or closing bracket of this level."""
        values: list[_Value] = []
        signs = set()
        while self.at < len(self.tokens):
            token = self._token()
            sign = token.text if token.kind == "sign" else ""
            if sign in (",", ")", "]"):
                break
            self.at += 1
            if sign in ("(", "["):
                values.extend(value for _, value in self.items(known))
            elif sign == ".":
                self.at += 1
            elif sign:
                signs.add(sign)
            elif (value := self._operand(token, known)) is not None:
                values.append(value)
            else:
                signs.add(token.text)
        if len(values) == 1 and signs <= {"-"}:
            number = values[0].number
            return values[0] if not signs else _Value(_ONE, None if number is None else -number)
        if signs & _FIXING and not signs & {"||", "CASE"}:
            return _Value(_ONE)
        return _Value(_plus([value.size for value in values]))

    def _operand(self, token: Token, known: Mapping[str, _Size]) -> _Value | None:
        """Return the value that begins with a token; None if it is a word of the grammar."""
        if token.kind == "number":
            digits = token.text.rstrip("LSYlsy")
            return _Value(_ONE, int(digits) if digits.isdigit() else None)
        if token.kind == "string":
            return _Value({"": len(token.text)}, None, token.text)
        if token.kind == "word" and self._token().kind == "sign" and self._token().text == "(":
            name = token.text.lower()
            if name in PURE_FUNCTIONS and token.text not in _FIXING:
                self.at += 1
                return _Value(self._call(name, known))
            return None
        name = folded(token.text)
        if name in known:
            return _Value(known[name])
        return _Value({_ROW: 1}) if name in self.columns else None

    def _call(self, name: str, known: Mapping[str, _Size]) -> _Size:
        found = self.items(known)
        given = [value for names, value in found if not names]
        bodies = [(names, value.size) for names, value in found if names]
        size = _applied(name, given, bodies) if name in _BODIES and bodies else _made(name, given)
        if size.get("", 0) > CONSTANT_MAX:
            _refused(name, f"more than {CONSTANT_MAX:,} characters or elements")
        if any(multiple > MULTIPLE_MAX for part, multiple in size.items() if part):
            _refused(name, f"more than {MULTIPLE_MAX} times its operands; nest fewer functions")
        return {part: multiple for part, multiple in size.items() if multiple}


def _applied(
    name: str, given: Sequence[_Value], bodies: Sequence[tuple[tuple[str, ...], _Size]]
) -> _Size:
    """Return the size of a function that applies a lambda function to many elements."""
    names, body = bodies[0]
    many: _Size = _plus([value.size for value in given])
    start: _Size = {}
    if name in ("aggregate", "reduce"):
        many = given[0].size
        start = _plus([value.size for value in given[1:]])
        kept, names = names[0], names[1:]
        if body.get(kept, 0) > 1:
            _refused(name, f"each step uses {kept} more than once, so its length multiplies")
        body = {part: multiple for part, multiple in body.items() if part != kept}
    of_elements = max((body.get(each, 0) for each in names), default=0)
    others = {part: multiple for part, multiple in body.items() if part not in names}
    size = _plus([{part: multiple * of_elements for part, multiple in many.items()}, start])
    size = _plus([size, _times(name, others, _plus([many, _ONE]))])
    for (kept, *_), last in bodies[1:]:
        scaled = {part: multiple * last.get(kept, 0) for part, multiple in size.items()}
        size = _plus([scaled, {part: m for part, m in last.items() if part != kept}])
    return size


_BODIES = words("aggregate map_zip_with reduce transform transform_keys transform_values zip_with")
_GROWING = (
    _FACTORS.keys() | _COUNTS.keys() | _ROUNDING | _PATTERNS | _BODIES
    | words("array_join concat_ws format_string from_json printf replace")
)  # fmt: skip
"""Functions without which no value is longer than its row and the text."""


def _made(name: str, given: Sequence[_Value]) -> _Size:
    sizes = [value.size for value in given]
    if name in _FIXED:
        return _ONE
    if name in _CHOOSING:
        return _most(sizes)
    if name in ("if", "nvl2"):
        return _most(sizes[1:])
    if name in _FACTORS:
        return {part: multiple * _FACTORS[name] for part, multiple in _plus(sizes).items()}
    if name in _COUNTS:
        return _counted(name, given)
    if name in _ROUNDING:
        if len(given) > 1 and (given[1].number is None or abs(given[1].number) > DIGITS_MAX):
            _refused(name, f"give the digits as a number, at most {DIGITS_MAX}")
        return _ONE
    if name in _PATTERNS or name == "replace":
        return _replaced(name, given)
    if name == "concat_ws":
        return _times(name, _plus([*sizes[:1], _ONE]), _plus([*sizes[1:], {"": len(sizes)}]))
    if name == "array_join":
        return _times(name, _plus([*sizes[1:], _ONE]), _plus([*sizes[:1], _ONE]))
    if name == "from_json":
        schema = given[1].text if len(given) > 1 else None
        if schema is None:
            _refused(name, "give the schema as a text")
        return _times(name, {"": 1 + len(schema) // 4}, _plus([sizes[0], _ONE]))
    if name in ("format_string", "printf"):
        return _formatted(name, given)
    return _plus(sizes)


def _counted(name: str, given: Sequence[_Value]) -> _Size:
    place = _COUNTS[name]
    numbers = [value.number for value in given]
    if name == "format_number" and len(given) > 1 and given[1].text is not None:
        return _plus([given[1].size, {"": DIGITS_MAX}])
    count = numbers[place] if place < len(numbers) else 0
    if name == "sequence" and len(numbers) > 1:
        end = numbers[1]
        count = None if count is None or end is None else abs(end - count) + 1
    if count is None or abs(count) > CONSTANT_MAX:
        _refused(name, f"give the count as a number, at most {CONSTANT_MAX:,}")
    sizes = [value.size for value in given]
    if name in ("repeat", "array_repeat"):
        return _times(name, _plus([sizes[0], {"": 1}]), {"": abs(count)})
    return _plus([{"": abs(count)}, *(sizes if name == "array_insert" else ())])


def _replaced(name: str, given: Sequence[_Value]) -> _Size:
    size = given[0].size
    texts = [value.text for value in given[1:3]]
    if name == "replace" and len(given) < 3:
        return size
    if name == "regexp_extract_all":
        texts = texts[:1]
    if None in texts:
        _refused(name, "give what it searches for, and the replacement, as texts")
    if name != "replace" and _LOOK_AROUND.search(texts[0] or ""):
        _refused(name, "the pattern looks ahead or behind, so matches may overlap")
    new = len(texts[1] or "") if len(texts) > 1 else 0
    factor = -(-new // max(1, len(texts[0] or ""))) if name == "replace" else 1 + new
    return _plus([{p: multiple * max(1, factor) for p, multiple in size.items()}, {"": new}])


def _formatted(name: str, given: Sequence[_Value]) -> _Size:
    form = given[0].text if given else None
    if form is None:
        _refused(name, "give the format as a text")
    width = sum(int(digits) for digits in re.findall(r"\d{1,9}", form))
    operands = [value.size for value in given[1:]]
    count = len(_CONVERSION.findall(form))
    indexed = "$" in form or "%<" in form
    total = {p: m * count for p, m in _most(operands).items()} if indexed else _plus(operands)
    return _plus([total, {"": len(form) + width}])


assert _SIZED | _CHOOSING | _FACTORS.keys() | _COUNTS.keys() <= PURE_FUNCTIONS
assert _ROUNDING | _PATTERNS | _OTHERS <= PURE_FUNCTIONS
