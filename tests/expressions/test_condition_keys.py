"""Keys that a condition lists: the same hashes as those of the rows it selects (CFL-18, ADD-8)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.expressions.condition_overlap import LISTED_MAX, listed_keys
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.content_hashes import hash_keys

ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3, None], pa.int64()),
        "s": pa.array(["a", "it's", "ü", None]),
        "d": pa.array([dt.date(2024, 2, 29), dt.date(1969, 1, 1), dt.date(1970, 1, 1), None]),
        "t": pa.array([0, 1_700_000_000_000_001, -1, None], pa.timestamp("us", "UTC")),
        "b": pa.array([b"\x00", b"\xff", b"", None], pa.binary()),
        "o": pa.array([True, False, True, None]),
        "f": pa.array([0.0, 1.5, float("nan"), None]),
        "e": pa.array([1, 2, 3, None], pa.int64()).cast(pa.decimal128(22, 2)),
    }
)
SCHEMA = from_arrow(ROWS.schema)


def hashed(names: list[str], at: list[int]) -> list[int]:
    kinds = [SCHEMA.find(name).type for name in names]
    rows = ROWS.take(at)
    hashes: list[int] = hash_keys([rows[n].combine_chunks() for n in names], kinds).tolist()
    return hashes


def found(text: str, *names: str) -> list[int] | None:
    ids = [SCHEMA.find(name).id for name in names]
    hashes = listed_keys(parse_predicate(text, SCHEMA, "UTC"), ids)
    return None if hashes is None else hashes.tolist()


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("k = 2", ["k"], [1]),
        ("k IN (1, 3, NULL)", ["k"], [0, 2]),
        ("k <=> 3 AND s > 'b'", ["k"], [2]),
        ("s IN ('a', 'it''s')", ["s"], [0, 1]),
        ("d = DATE '2024-02-29'", ["d"], [0]),
        ("t = TIMESTAMP '1970-01-01 00:00:00'", ["t"], [0]),
        ("b = X'FF'", ["b"], [1]),
        ("k IN (1, 2) AND k = 2", ["k"], [1]),
        ("k = 1 AND s = 'a' AND o", ["k", "s"], [0]),
        ("k = 1 AND s = 'a'", ["s", "k"], [0]),
        ("NOT (k <> 2 OR s IS NULL)", ["k"], [1]),
    ],
)
def test_hashes_are_those_of_the_rows_selected(
    text: str, names: list[str], rows: list[int]
) -> None:
    assert found(text, *names) == hashed(names, rows)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("k > 2", ["k"]),
        ("k = 1 OR s = 'a'", ["k"]),
        ("NOT k = 1", ["k"]),
        ("k NOT IN (1, 2)", ["k"]),
        ("k <> 1", ["k"]),
        ("k = 1", ["k", "s"]),
        ("k IS NULL", ["k"]),
        ("f = 0.0", ["f"]),
        ("e = 1.00", ["e"]),
    ],
)
def test_nothing_is_known_where_other_keys_are_possible_or_hashes_may_differ(
    text: str, names: list[str]
) -> None:
    assert found(text, *names) is None


@pytest.mark.slow
def test_too_many_keys_are_not_listed() -> None:
    values = ", ".join(map(str, range(LISTED_MAX)))
    assert len(found(f"k IN ({values})", "k") or []) == LISTED_MAX
    assert found(f"k IN ({values}, -1)", "k") is None
    assert found(f"k IN ({values}) AND s IN ('a', 'b')", "k", "s") is None


KEYS = st.integers(0, 5)
CONDITIONS = st.recursive(
    st.one_of(
        st.builds(lambda v: f"k = {v}", KEYS),
        st.builds(lambda vs: f"k IN ({', '.join(map(str, vs))})", st.lists(KEYS, min_size=1)),
        st.builds(lambda v: f"k > {v}", KEYS),
        st.builds(lambda v: f"o <=> {v}", st.booleans()),
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
        st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
        st.builds(lambda a: f"(NOT {a})", inner),
    ),
    max_leaves=5,
)


@given(CONDITIONS)
def test_no_row_that_a_condition_selects_has_a_key_that_is_not_listed(text: str) -> None:
    """Plain Python checks every possible row."""
    for names in (["k"], ["k", "o"]):
        hashes = found(text, *names)
        if hashes is None:
            continue
        for k in range(6):
            for o in (True, False):
                python = text.replace("<=>", "==").replace(" = ", " == ")
                for word, plain in (("AND", "and"), ("OR", "or"), ("NOT", "not"), ("IN", "in")):
                    python = python.replace(word, plain)
                selected: Any = eval(_tuples(python), {}, {"k": k, "o": o})
                row = {"k": pa.array([k], pa.int64()), "o": pa.array([o])}
                kinds = [SCHEMA.find(n).type for n in names]
                key = hash_keys([row[n] for n in names], kinds)
                assert not selected or bool(np.isin(key, hashes).all())


def _tuples(text: str) -> str:
    """Rewrite `in (1)`, which is no membership in Python."""
    return text.replace("in (", "in (9, ")
