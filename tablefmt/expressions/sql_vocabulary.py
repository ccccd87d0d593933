"""Words of Spark's SQL: functions by the dependency of their values, and keywords as names. Pure.

The functions that a CHECK may call depend on one row only, and return equal values for equal rows.
None of them runs code that a name selects, or has side effects. None reads a file, the session or
the clock, or is random. Spec: SQL-6 (spec/changing.md has the same table).

The parser reads `values`, `comment` or `left` as the start of another construct. Spark reads a word
as a name wherever a value is expected, and so does the reader of constraints. This module marks
such words as names for the parser. Spec: SQL-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token, TokenType

BY_KIND: Mapping[str, str] = {
    "conditions": """
        coalesce equal_null if ifnull ilike isnan isnotnull isnull like nanvl nullif nullifzero nvl
        nvl2 regexp regexp_like rlike zeroifnull
        """,
    "casts": """
        bigint binary boolean cast date decimal double float int smallint string timestamp tinyint
        try_cast
        """,
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling
        conv cos cosh cot csc degrees div e exp expm1 factorial floor getbit greatest hex hypot
        least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec
        shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add
        try_divide try_mod try_multiply try_subtract unhex width_bucket
        """,
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr concat concat_ws
        contains decode elt encode endswith find_in_set format_number format_string initcap instr
        is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim luhn_check mask
        octet_length overlay position printf regexp_count regexp_extract regexp_extract_all
        regexp_instr regexp_replace regexp_substr repeat replace reverse right rpad rtrim soundex
        space split split_part startswith substr substring substring_index to_binary to_char
        to_number to_varchar translate trim try_to_binary try_to_number ucase unbase64 upper
        """,
    "digests": "crc32 hash md5 sha sha1 sha2 xxhash64",
    "times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
        extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
        make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute
        month monthname months_between next_day quarter second timestamp_micros timestamp_millis
        timestamp_seconds timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_timestamp try_to_date
        try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday
        weekofyear year
        """,
    "arrays, maps and structs": """
        aggregate array array_append array_compact array_contains array_distinct array_except
        array_insert array_intersect array_join array_max array_min array_position array_prepend
        array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
        cardinality element_at exists filter flatten forall get map map_concat map_contains_key
        map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
        named_struct reduce sequence size slice sort_array str_to_map struct transform
        transform_keys transform_values try_element_at zip_with
        """,
    "JSON and addresses": """
        from_json get_json_object json_array_length json_object_keys parse_url schema_of_json
        to_json try_parse_url try_url_decode url_decode url_encode
        """,
}
"""Names of allowed functions in lower case, by subject."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


PURE_FUNCTIONS = words(" ".join(BY_KIND.values()))

CHANCE_FUNCTIONS = words("""
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand
    randn random randstr shuffle spark_partition_id uniform uuid
""")
"""Functions with another value each time, or by where a row is read."""

CLOCK_FUNCTIONS = words("""
    curdate current_date current_time current_timestamp localtime localtimestamp now
""")
"""Functions with another value in another statement."""

SESSION_FUNCTIONS = words("""
    current_catalog current_database current_path current_schema current_timezone current_user
    session_user user version
""")
"""Functions with another value in another session."""

CHANGING_FUNCTIONS = CHANCE_FUNCTIONS | CLOCK_FUNCTIONS | SESSION_FUNCTIONS
"""Functions whose values change by themselves."""

assert not PURE_FUNCTIONS & CHANGING_FUNCTIONS
assert sum(len(names.split()) for names in BY_KIND.values()) == len(PURE_FUNCTIONS)


_WORD = re.compile(r"[^\W\d]\w*")
_NEVER = words("NOT CASE NULL TRUE FALSE")
"""Words that are never names without backticks, here and in a constraint."""

_CALLED = frozenset(Dialect.get_or_raise("spark").parser_class.NO_PAREN_FUNCTION_PARSERS)
"""Words that the parser treats as calls even if they are marked as names, unless quoted."""

_VALUES = words("NULL TRUE FALSE END UNKNOWN ISNULL NOTNULL")
"""Words that end a value, unless they are names."""

_FOLLOWS = words("= == <> != < <= > >= <=> + - * / % & | ^ || ) ] , [ . -> :: ;")
"""Signs that may follow a value."""

_JOINS = words("""
    AND OR IS DIV LIKE ILIKE RLIKE REGEXP BETWEEN WHEN THEN ELSE END ESCAPE COLLATE ASC DESC NULLS
""")
"""Words that may follow a value."""

_JOINING = words("AND OR IN LIKE ILIKE RLIKE REGEXP BETWEEN DIV IS THEN")
_INFIX = words("= == <> != < <= > >= <=> / % & | ^ ||")
"""Words and signs that cannot occur where a value is expected."""

_NEGATED = words("IN BETWEEN LIKE ILIKE RLIKE REGEXP")
_SIGNED = words("+ - *")
_LISTS = words("SELECT DISTINCT ALL")
"""Words of a sub-query or a call after which a value may start with a sign, or a star follows."""

_WITH_FROM = words("SUBSTR SUBSTRING OVERLAY TRIM EXTRACT")
_CASTS = words("CAST TRY_CAST")
_UNIT = re.compile(
    r"(?:YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?", re.IGNORECASE
)
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_LITERALS = frozenset(
    {
        *(TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING),
        *(TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.PLACEHOLDER),
    }
)


def with_names(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of an expression, with words that are names marked as names."""
    walk = _Walk(list(tokens))
    while walk.at < len(walk.tokens):
        walk.step()
    return walk.tokens


def first_misplaced(tokens: Sequence[Token]) -> tuple[int, bool] | None:
    """Return the first misplaced token that can be found without a grammar.

    Returns:
        Its index, or the number of tokens for the end; and True if a value is missing before it.
        None if no such token is found.
    """
    walk = _Walk(list(tokens))
    while walk.at < len(walk.tokens):
        walk.step()
    for at, complete in walk.before.items():
        token, before = walk.tokens[at], walk.tokens[at - 1].text.upper() if at else ""
        text = token.text.upper()
        if complete and token.token_type in _NAMES | _LITERALS and not _UNIT.fullmatch(text):
            return at, False
        joins = text in (_JOINING if is_word(token) else _INFIX)
        if not complete and joins and before not in ("NOT", "IS", "DISTINCT"):
            return at, True
    return None if walk.value or not tokens else (len(tokens), True)


def is_word(token: Token) -> bool:
    """Return True for a word that the parser may not read as a name."""
    kind = token.token_type
    if kind in _NAMES:
        return kind == TokenType.VAR and token.text.upper() in _CALLED
    return kind not in _LITERALS and _WORD.fullmatch(token.text) is not None


def as_name(token: Token) -> Token:
    """Return the token as a name."""
    if token.text.upper() in _CALLED:
        return as_quoted(token)
    kind = TokenType.VAR
    return Token(kind, token.text, token.line, token.col, token.start, token.end, token.comments)


def as_quoted(token: Token) -> Token:
    """Return the token as a name in backticks."""
    kind = TokenType.IDENTIFIER
    return Token(kind, token.text, token.line, token.col, token.start, token.end, token.comments)


def is_typed_name(token: Token, following: Token) -> bool:
    """Return True if a word in a list of columns is a column name: a type follows it."""
    word = is_word(token) or token.token_type == TokenType.VAR
    return word and _WORD.fullmatch(following.text) is not None


@dataclass(slots=True)
class _Walk:
    """Walk over the tokens that tracks complete values and open brackets."""

    tokens: list[Token]
    at: int = 0
    value: bool = False
    before: dict[int, bool] = field(default_factory=dict)
    """Complete values by token: True if a value is complete before it. Words of types are left
    out.
    """
    opened: list[str] = field(default_factory=list)
    """Word before each open bracket, in upper case; or empty."""

    def step(self) -> None:
        token = self.tokens[self.at]
        kind = token.token_type
        self.before[self.at] = self.value
        if kind in _OPENING:
            before = self._token(-1)
            called = before is not None and _WORD.fullmatch(before.text) is not None
            self.opened.append(before.text.upper() if called and before is not None else "")
            self.value = False
        elif kind in _CLOSING:
            del self.opened[-1:]
            self.value = True
        elif kind == TokenType.DCOLON:
            self.at += 1
            self._pass_type()
            return
        elif is_word(token):
            self._word(token)
            if self._is_cast(token):
                self.at += 1
                self._pass_type()
                return
        else:
            self.value = kind in _NAMES or kind in _LITERALS
        self.at += 1

    def _word(self, token: Token) -> None:
        before = self._token(-1)
        part = before is not None and before.token_type == TokenType.DOT
        if part or (not self.value and self._is_name(token)):
            self.tokens[self.at] = as_name(token)
            self.value = True
        else:
            self.value = token.text.upper() in _VALUES

    def _is_name(self, token: Token) -> bool:
        word, kept = token.text.upper(), self._kept_before()
        if word in _NEVER or kept == "IS" or (kept, word) in _PAIRS:
            return False
        if kept == "NOT" and self.before.get(self.at - 1):
            # In `a NOT BETWEEN -1 AND 1`, NOT follows a value.
            return False
        if (word == "INTERVAL" and self._begins_interval()) or (
            word in ("ROWS", "RANGE") and self._inside() == "OVER"
        ):
            return False
        following = self._token(1)
        if following is None:
            return True
        text = following.text.upper()
        if text in _SIGNED and word in _LISTS and self._may_be_list(text):
            # For `(SELECT * …` or `count(DISTINCT -x)`, the word before decides.
            before = self._token(-1)
            opens = before is not None and before.token_type == TokenType.L_PAREN
            begins = opens and (word == "SELECT" or self._inside() != "")
            return not begins and (not kept or kept in _JOINS)
        return self._may_follow(following)

    def _may_be_list(self, sign: str) -> bool:
        """Return True if a sign may start what SELECT lists; for a star, only if no value
        follows.
        """
        behind = self._token(2)
        ends = behind is None or behind.text.upper() in (")", ",", "FROM", "EXCEPT")
        return sign != "*" or ends

    def _may_follow(self, token: Token) -> bool:
        """Return True if a token can follow a value."""
        if not is_word(token):
            return token.token_type not in _LITERALS and token.text in _FOLLOWS
        text, behind = token.text.upper(), self._token(2)
        if text == "IN":
            return behind is not None and behind.token_type == TokenType.L_PAREN
        if text == "NOT":
            return behind is not None and behind.text.upper() in _NEGATED
        if text == "AS":
            return self._inside() in _CASTS
        if text in ("FROM", "FOR"):
            return self._inside() in _WITH_FROM
        return text in _JOINS

    def _token(self, ahead: int) -> Token | None:
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def _kept_before(self) -> str:
        """Return the word before in upper case, if it is not a name; IS for IS NOT."""
        before, first = self._token(-1), self._token(-2)
        if before is None or not is_word(before):
            return ""
        text = before.text.upper()
        if text == "NOT" and first is not None and is_word(first) and first.text.upper() == "IS":
            return "IS"
        return str(text)

    def _inside(self) -> str:
        return self.opened[-1] if self.opened else ""

    def _is_cast(self, token: Token) -> bool:
        """Return True if a type comes next: after AS in a cast."""
        return (
            self.tokens[self.at] is token
            and token.text.upper() == "AS"
            and self._inside() in _CASTS
        )

    def _begins_interval(self) -> bool:
        """Return True if INTERVAL starts an interval: a text follows, or a number and a unit."""
        following, ahead = self._token(1), 1
        if following is not None and following.text in ("+", "-"):
            following, ahead = self._token(2), 2
        if following is None or following.token_type != TokenType.NUMBER:
            return following is not None and following.token_type == TokenType.STRING
        unit = self._token(ahead + 1)
        return unit is not None and _UNIT.fullmatch(unit.text) is not None

    def _pass_type(self) -> None:
        """Skip a type: a word, and the bracketed text after it."""
        self.at += 1
        self.value = True
        if self.at >= len(self.tokens) or self.tokens[self.at].text not in ("<", "("):
            return
        depth = 0
        while self.at < len(self.tokens):
            text = self.tokens[self.at].text
            depth += (text in ("<", "(")) - (text in (">", ")"))
            self.at += 1
            if depth <= 0:
                return


_PAIRS = frozenset({("CASE", "WHEN"), ("DISTINCT", "FROM")})
"""Pairs of words whose second one is not a name."""
