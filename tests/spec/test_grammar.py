"""The grammar of conditions that spec/pruning.md publishes is the one that is read and written."""

from __future__ import annotations

import datetime
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.expressions.predicate import Predicate, to_sql
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.schema import Decimal, Field, Primitive, Schema
from tablefmt.testing.random_conditions import predicates, schemas
from tests.places import ROOT
from tests.scheduling import examples
from tests.spec.grammar import Special, read_grammar

PAGE = (ROOT / "spec" / "pruning.md").read_text(encoding="utf-8")
TEXT = PAGE.partition("```ebnf\n")[2].partition("```")[0]

KINDS = [
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal",
]
COLUMNS = Schema(
    tuple(
        Field(at, name, name, Decimal(9, 2) if kind == "decimal" else Primitive(kind))
        for at, (kind, name) in enumerate(
            [*((kind, f"c_{kind}") for kind in KINDS), *((kind, f"a `{kind}`") for kind in KINDS)],
            1,
        )
    ),
    2 * len(KINDS),
)
BEYOND = re.compile(r"[eE][+-]?\d{3}D")
"""Powers of ten that may be no DOUBLE: the page excludes those in words."""
QUOTED = r"`(?:[^`]|``)*`"


def named(kinds: str) -> Special:
    """The name of a column of one of the types."""
    wanted = kinds.split()
    names = [f.name for f in COLUMNS.fields if str(f.type).partition("(")[0] in wanted]
    written = [n if n.startswith("c_") else "`" + n.replace("`", "``") + "`" for n in names]
    bare = sorted((n for n in written if n.startswith("c_")), key=len, reverse=True)
    return Special(lambda chance: chance.choice(written), "|".join([QUOTED, *bare]))


def a_day(chance: random.Random) -> str:
    return datetime.date.fromordinal(chance.randint(2, 3_652_058)).isoformat()


def a_character(chance: random.Random) -> str:
    return chance.choice("ax/*-;{}`\0\té😀\U0010ffff\ud7ff")


SPECIALS = {
    "the name of a column of any type": named(" ".join(KINDS)),
    "a day": Special(a_day, r"[+-]?\d{4,7}-\d\d-\d\d"),
    "a code point that is none of ' \" \\ % _ $": Special(a_character, r"[^'\"\\%_$]"),
}
for said in re.findall(r"\? (the name of a column of the types? ([a-z_ ]+)) \?", TEXT):
    SPECIALS[said[0]] = named(said[1])
GRAMMAR = read_grammar(TEXT, SPECIALS)


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["condition", *(r for r in GRAMMAR.rules if "_test" in r)])
def test_every_sentence_of_the_grammar_is_understood(rule: str) -> None:
    """PRN-16, PRN-1: read, and the text that is made of it is a sentence and read as the same."""
    chance = random.Random(rule)
    for _ in range(40):
        text = BEYOND.sub("D", GRAMMAR.sentence(rule, chance))
        assert GRAMMAR.holds("condition", text), text
        written = to_sql(parse_predicate(text, COLUMNS))
        assert GRAMMAR.holds("condition", written), written
        assert to_sql(parse_predicate(written, COLUMNS, "America/New_York")) == written


@st.composite
def conditions(draw: st.DrawFn) -> Predicate:
    return draw(predicates(draw(schemas())))


@pytest.mark.slow
@examples(100)
@given(conditions())
def test_the_text_of_every_predicate_is_a_sentence(predicate: Predicate) -> None:
    """PRN-16: the text that a writer puts into an entry follows the grammar."""
    assert GRAMMAR.holds("condition", to_sql(predicate))


@pytest.mark.parametrize(
    "text",
    ["", "1", "c_integer", "c_integer = 'a'", "(TRUE", "c_long = 1 AND", "length(c_string) = 1",
     "c_integer = c_long", "c_string LIKE c_string", "DATE '2020-01-01'", "c_date = 5"],
)  # fmt: skip
def test_what_is_no_sentence_is_known_as_none(text: str) -> None:
    """PRN-16: the tests above can fail."""
    assert not GRAMMAR.holds("condition", text)
