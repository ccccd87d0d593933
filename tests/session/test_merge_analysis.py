"""The analysis of a MERGE, and the rule of one change for a row, against plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.errors import ConstraintViolationError, InvalidPredicateError
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.merge_statement import (
    Action,
    Clause,
    MergeStatement,
    Side,
    SourceValues,
    resolve_clauses,
)
from tablefmt.expressions.predicate import to_sql
from tablefmt.expressions.sql_parser import Relation
from tablefmt.model.log_entry import Metadata
from tablefmt.session.merge_analysis import (
    MergeAnalysis,
    StatementReader,
    check_may_change,
    merge_fingerprint,
)
from tablefmt.session.merge_pairs import (
    DELETED,
    KEPT,
    UPDATED,
    Pairs,
    changed_twice,
    must_not_change,
    positions_by_file,
    source_keys,
)

TARGET = schema_from("id BIGINT, k INT, v STRING, f DOUBLE, s STRUCT<a: BIGINT>")
SOURCE = schema_from("id BIGINT, k INT, v STRING, f DOUBLE, s STRUCT<a: BIGINT>, n BIGINT")
M, N, B = Side.MATCHED, Side.NOT_MATCHED, Side.NOT_MATCHED_BY_SOURCE


def analyzed(on: Any, *clauses: Clause, merge_schema: bool = False) -> MergeAnalysis:
    statement = MergeStatement(on=on, clauses=clauses, merge_schema=merge_schema)
    steps = resolve_clauses(statement, TARGET, SOURCE.names)
    reader = StatementReader(Relation(TARGET, "t", "t"), Relation(SOURCE, "s", "s"))
    return reader.analyze(statement, steps)


def update(condition: str | None = None, side: Side = M, **values: str) -> Clause:
    return Clause(side, Action.UPDATE, condition, values)


DELETE = Clause(M, Action.DELETE)
STAR = Clause(M, Action.UPDATE)
INSERT = Clause(N, Action.INSERT)
DELETE_BY_SOURCE = Clause(B, Action.DELETE)


def names(ids: Any) -> Any:
    return ids if ids is None else sorted(TARGET.by_id(i).name for i in ids)


@pytest.mark.parametrize(
    ("on", "clauses", "columns"),
    [
        ("t.id = s.id", [STAR], ["f", "k", "s", "v"]),
        ("s.id <=> t.id AND t.v = s.v", [STAR], ["f", "k", "s"]),
        ("t.id = s.id + 1", [update(id="s.id  +  1", v="'x'")], ["v"]),
        ("t.id = s.id + 1", [update(id="s.id + 2")], ["id"]),
        ("t.id = s.n", [update(id="s.id")], ["id"]),
        # An integer of another width that is equal is the same number.
        ("t.k = s.n", [update(k="s.n")], []),
        # Equal values may differ: the two zeros.
        ("t.f = s.f", [update(f="s.f")], ["f"]),
        # Text that is equal as a number is not.
        ("t.v = s.n", [update(v="s.n")], ["v"]),
        ("t.s = s.s", [update(s="s.s")], ["s"]),
        ("t.id = s.id OR t.k = s.k", [update(id="s.id")], ["id"]),
        ("t.id = s.id", [update("t.k > 1", v="'a'"), update(k="0"), INSERT], ["k", "v"]),
        ("t.id = s.id", [DELETE, INSERT], []),
        # A row that no source row matches equals nothing.
        ("t.id = s.id", [update(side=B, id="7")], ["id"]),
    ],
)
def test_columns_that_are_really_set(on: str, clauses: list[Clause], columns: list[str]) -> None:
    """MRG-5: a column that ON already makes equal is not set."""
    assert names(analyzed(on, *clauses).set_columns) == columns


@pytest.mark.parametrize(
    ("on", "clauses", "keys"),
    [
        ("t.v = s.v AND t.id = s.id", [INSERT], ["id", "v"]),
        ("t.id = s.id AND s.n = t.id AND t.k > 5", [STAR], ["id"]),
        ("t.id <=> s.id", [INSERT], []),
        ("t.id <=> s.id AND t.k = s.k", [INSERT], ["k"]),
        ("t.id = s.id OR t.k = s.k", [INSERT], []),
        ("t.v = s.n", [INSERT], []),
        ("t.s = s.s", [INSERT], []),
        ("t.id = s.id AND t.s.a = s.n", [INSERT], ["id"]),
        ("t.id = s.id", [INSERT, DELETE_BY_SOURCE], []),
    ],
)
def test_columns_by_which_rows_have_a_key(on: str, clauses: list[Clause], keys: list[str]) -> None:
    """ADD-8, CFL-18: each column once, in the order of the ids, for any order in ON."""
    analysis = analyzed(on, *clauses)
    assert [field.name for field in analysis.key_fields] == keys
    assert len(analysis.key_parts) == len(keys)


@pytest.mark.parametrize(
    ("on", "clauses", "predicate", "columns", "by_row"),
    [
        ("t.id = s.id", [STAR], "`id` IN (1, 2)", ["id"], True),
        ("t.id = s.id AND t.k < 5", [STAR], "`k` < 5 AND `id` IN (1, 2)", ["id", "k"], True),
        ("t.id = s.id OR t.k = s.k", [STAR], None, ["id", "k"], True),
        ("t.id = s.id", [STAR, DELETE_BY_SOURCE], None, ["id"], True),
        (
            "t.id = s.id",
            [Clause(B, Action.DELETE, "t.k > 7 AND upper(t.v) = 'X'")],
            "`id` IN (1, 2) OR `k` > 7",
            ["id", "k", "v"],
            True,
        ),
        # A struct of the source is permitted, one of the table is not.
        ("t.id = s.s.a", [STAR], "`id` IN (1, 2)", ["id"], True),
        ("t.id = s.id AND t.s.a > 1", [STAR], "`id` IN (1, 2)", None, False),
        ("t.id = s.id AND strange(t.k)", [STAR], "`id` IN (1, 2)", None, False),
        (object(), [STAR], None, None, False),
    ],
)
def test_what_is_looked_at(
    on: Any, clauses: list[Clause], predicate: str | None, columns: Any, by_row: bool
) -> None:
    """MRG-3, CFL-21: every part that is equated holds 1 and 2 in the source."""
    analysis = analyzed(on, *clauses)

    condition = analysis.read_condition(
        [SourceValues(values=(1, 2), has_null=False) for _ in analysis.equated]
    )

    text = None if condition.predicate is None else to_sql(condition.predicate)
    assert (text, names(condition.used_columns), condition.by_row) == (predicate, columns, by_row)
    assert not condition.exact


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidPredicateError):
        analyzed("t.id = = s.id", STAR)


def test_an_append_only_table_takes_a_merge_that_only_inserts() -> None:
    metadata = Metadata(TARGET, (), {"appendOnly": "true"})
    check_may_change(metadata, [INSERT])
    check_may_change(metadata, analyzed("t.id = s.id", INSERT).clauses)
    for clause in (STAR, DELETE, DELETE_BY_SOURCE):
        with pytest.raises(ConstraintViolationError):
            check_may_change(metadata, [INSERT, clause])


def test_the_fingerprint_is_of_all_that_decides() -> None:
    """CFL-7: any other text is another statement."""
    statements = [
        MergeStatement(on=on, source_alias=s, target_alias=t, clauses=clauses, merge_schema=schema)
        for on in ("t.id = s.id", "t.id = s.k")
        for s in ("s", "u")
        for t in ("t", "w")
        for clauses in ((STAR,), (DELETE,), (STAR, INSERT), (update(v="1"),), (update(v="2"),))
        for schema in (False, True)
    ]
    assert len({merge_fingerprint(each) for each in statements}) == len(statements)


def test_keys_that_are_hashed_later_are_the_same() -> None:
    analysis = analyzed("t.v = s.v AND t.id = s.id", INSERT)
    columns = [pa.chunked_array([pa.array([3, 1, None])]), pa.chunked_array([["x", "y", "z"]])]
    asked: list[None] = []

    def values() -> list[pa.ChunkedArray]:
        asked.append(None)
        return columns

    now, later = (source_keys(analysis, 3, values, later=each) for each in (False, True))
    assert now is not None
    assert later is not None
    assert len(asked) == 1
    assert now.columns == later.columns == (1, 3)
    assert now.hashes.tolist() == later.hashes.tolist() == later.hashes.tolist()
    assert (len(now.hashes), len(asked)) == (2, 2)
    assert source_keys(analysis, 100_001, values) is None


# --- one change for a row ------------------------------------------------------------------------

PAIRS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 4), st.sampled_from([0, 1, 2])),
    unique_by=lambda pair: pair[:3],
    max_size=30,
)
ALONE = st.lists(st.tuples(st.integers(3, 4), st.integers(0, 3)), unique=True, max_size=5)


def arrays(rows: list[tuple[int, int, int, int]]) -> Pairs:
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return Pairs(columns[0].astype(np.int32), columns[1], columns[2], columns[3])


@given(matched=PAIRS, alone=ALONE)
def test_rows_that_several_source_rows_would_change(
    matched: list[tuple[int, int, int, int]], alone: list[tuple[int, int]]
) -> None:
    """MRG-4: pairs to which no clause applies do not count, nor do rows without a source row."""
    rows = [*matched, *((file, at, -1, DELETED) for file, at in alone)]
    pairs = arrays(rows)

    twice = [rows[i] for i in changed_twice(pairs).tolist()]

    changes = Counter((f, p) for f, p, _, action in matched if action != KEPT)
    expected = sorted(row for row, count in changes.items() if count > 1)
    assert [row[:2] for row in twice] == expected
    for file, position, source, action in twice:
        sources = sorted(s for f, p, s, a in matched if (f, p) == (file, position) and a != KEPT)
        assert (source, action != KEPT) == (sources[1], True)


@pytest.mark.parametrize(
    ("clauses", "refused"),
    [
        ([DELETE], False),
        ([DELETE, INSERT], False),
        ([DELETE, INSERT, DELETE_BY_SOURCE], False),
        ([Clause(M, Action.DELETE, "s.n > 1")], True),
        ([update("s.n > 1", v="'x'"), DELETE], True),
        ([STAR], True),
    ],
)
def test_a_lone_delete_without_a_condition_may_be_asked_for_twice(
    clauses: list[Clause], refused: bool
) -> None:
    """MRG-4."""
    action = DELETED if clauses[0].action is Action.DELETE else UPDATED
    pairs = arrays([(0, 0, 0, action), (0, 0, 1, action), (0, 1, 2, action)])
    analysis = analyzed("t.id = s.id", *clauses)
    assert must_not_change(analysis, pairs).tolist() == ([1] if refused else [])


@given(PAIRS)
def test_positions_by_file(rows: list[tuple[int, int, int, int]]) -> None:
    pairs = arrays(rows)
    found = positions_by_file(pairs.file, pairs.position, np.array([70, 50, 60]))
    expected: dict[int, set[int]] = {}
    for file, position, *_ in rows:
        expected.setdefault([70, 50, 60][file], set()).add(position)
    assert {file: set(positions) for file, positions in found.items()} == expected
