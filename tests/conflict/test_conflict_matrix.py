"""The published matrix is the one that decides."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tablefmt.conflict.conflict_check import check
from tablefmt.conflict.conflict_matrix import (
    FILE_AND_ROW,
    KIND_OF,
    TRANSACTION,
    Kind,
    Rule,
    TransactionRule,
    file_and_row_rule,
    matrix_of,
    rule_text,
    transaction_rule,
)
from tablefmt.conflict.read_write_sets import ConcurrentCommit, PendingCommit
from tablefmt.conflict.verdict import AlreadyApplied, Conflict
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.log_entry import (
    ApplicationTransaction,
    Basis,
    Entry,
    Metadata,
    Operation,
    OperationClass,
    PartitionScope,
    ProtocolFeatures,
    Totals,
)
from tests.places import MATRICES

METADATA = Metadata(schema_from("id BIGINT"))
ENTRY = Entry(
    table="ab" * 16,
    version=5,
    timestamp=1,
    time_version=1,
    transaction="0f" * 16,
    previous="0" * 64,
    operation=Operation(name="ALL", cls=OperationClass.OVERWRITE),
    basis=Basis(
        read_version=4, isolation="WriteSerializable", granularity="transaction", blind=False
    ),
    totals=Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=5),
)
MINE = PendingCommit(
    cls=OperationClass.INSERT,
    granularity="transaction",
    isolation="WriteSerializable",
    scope=None,
    metadata=METADATA,
)


def test_granularity_transaction_is_the_published_matrix() -> None:
    """CFL-2: all 25 cells."""
    text = (MATRICES / "transaction.json").read_text(encoding="utf-8")
    published = json.loads(text)["earlier_then_later"]
    shown: dict[str, dict[str, str]] = {}
    for (earlier, later), cell in TRANSACTION.items():
        shown.setdefault(earlier.value, {})[later.value] = cell.value
    assert shown == published
    assert len(TRANSACTION) == 25


def test_the_first_check_that_applies_decides() -> None:
    """CFL-1: protocol, metadata, application, matrix. One concurrent commit breaks all."""
    app = ApplicationTransaction("app", 1, "theirs")
    concurrent = replace(ENTRY, protocol=ProtocolFeatures(), metadata=METADATA, application=app)
    mine = replace(MINE, application=replace(app, digest="mine"))
    rules = []
    for less in ("protocol", "metadata", "application", ""):
        verdict = check(ConcurrentCommit(concurrent), mine)
        assert isinstance(verdict, Conflict)
        rules.append((verdict.rule, verdict.error.__name__))
        concurrent = replace(concurrent, **dict[str, Any]({less: None})) if less else concurrent
    assert rules == [
        ("CFL-4", "ProtocolChangedException"),
        ("CFL-5", "MetadataChangedException"),
        ("CFL-6", "ConcurrentTransactionException"),
        ("CFL-2", "ConcurrentWriteException"),
    ]
    concurrent = replace(concurrent, application=app)
    assert check(ConcurrentCommit(concurrent), replace(mine, application=app)) == AlreadyApplied(
        concurrent.version
    )


@pytest.mark.parametrize(
    ("concurrent", "expected"),
    [
        ({}, "CFL-4"),
        ({"cls": OperationClass.UPDATE, "remove": [1]}, "CFL-4"),
        ({"cls": OperationClass.UPDATE, "remove": [1], "files": 1}, "CFL-5"),
        ({"cls": OperationClass.UPDATE, "remove": []}, "CFL-5"),
        ({"cls": OperationClass.UPDATE, "remove": [1], "predicate": "id = 1"}, "CFL-5"),
        ({"cls": OperationClass.METADATA}, "CFL-5"),
        ({"cls": OperationClass.INSERT}, "CFL-5"),
        ({"scope": PartitionScope(((1,),))}, "CFL-5"),
    ],
)
def test_of_two_that_replace_a_table_the_later_meets_another_table(
    concurrent: dict[str, Any], expected: str
) -> None:
    """CFL-4: both replace; who does less, on either side, meets changed metadata (CFL-5)."""
    said = {
        "cls": OperationClass.OVERWRITE,
        "scope": None,
        "predicate": None,
        "files": 0,
        **concurrent,
    }
    entry = replace(
        ENTRY,
        # An ALTER that changes nothing but tags does not count.
        metadata=replace(METADATA, properties={"appendOnly": "true"})
        if said["cls"] is OperationClass.METADATA
        else METADATA,
        remove=said.get("remove", []),
        operation=replace(ENTRY.operation, cls=said["cls"]),
        basis=replace(ENTRY.basis, scope=said["scope"], predicate=said["predicate"]),
        totals=replace(ENTRY.totals, files=said["files"]),
    )
    for cls in (OperationClass.OVERWRITE, OperationClass.UPDATE):
        mine = replace(MINE, cls=cls, replaces=True)
        later = check(ConcurrentCommit(entry), mine)
        less = check(ConcurrentCommit(entry), replace(mine, replaces=False))
        assert isinstance(later, Conflict)
        assert isinstance(less, Conflict)
        assert (later.rule, less.rule) == (expected, "CFL-5")
        named = {"CFL-4": "ProtocolChangedException", "CFL-5": "MetadataChangedException"}
        assert later.error.__name__ == named[expected]


def test_granularities_file_and_row_are_the_published_matrix() -> None:
    """CFL-3: all 96 cells, with the exception each names and what tablefmt does better."""
    text = (MATRICES / "file_and_row.json").read_text(encoding="utf-8")
    published = json.loads(text)["cells"]
    assert len(published) == 96
    for cell in published:
        earlier, later = Kind(cell["earlier"]), Kind(cell["later"])
        rule = file_and_row_rule(cell["profile"], cell["isolation"], earlier, later)
        expected = {
            ("never", None): {Rule.NEVER, Rule.OVERTAKEN},
            ("if", None): {Rule.OVERTAKEN},
            ("if", "ConcurrentAppendException"): {Rule.APPENDED},
            ("if", "ConcurrentDeleteReadException"): {Rule.SAME},
            ("if", "ConcurrentDeleteDeleteException"): {Rule.SAME},
        }.get((cell["conflict"], cell.get("exception")), {Rule.READ})
        assert rule in expected, cell
        assert (cell.get("tablefmt", "").startswith("never")) <= (rule is Rule.OVERTAKEN), cell
        if rule is Rule.SAME:
            named = "Read" if later is Kind.UPDATE else "Delete"
            assert cell["exception"] == f"ConcurrentDelete{named}Exception", cell


def test_every_pair_of_classes_that_touch_rows_has_a_cell() -> None:
    """CFL-3: no pair of classes uses a default."""
    no_rows = {OperationClass.METADATA, OperationClass.PROTOCOL}
    assert set(KIND_OF) == set(OperationClass) - no_rows
    assert {
        matrix_of(g, d) for g in ("file", "row") for d in ("merge-on-read", "copy-on-write")
    } == {matrix for matrix, _ in FILE_AND_ROW}
    assert matrix_of("row", "copy-on-write") == matrix_of("file", "copy-on-write")


def test_an_overwrite_that_reads_nothing_replaces_whatever_came_before() -> None:
    """CFL-3."""
    later = replace(MINE, cls=OperationClass.OVERWRITE)
    for cls in KIND_OF:
        for granularity in ("row", "file"):
            mine = replace(later, granularity=granularity)
            concurrent = ConcurrentCommit(
                replace(ENTRY, operation=Operation(name="ANY", cls=cls), remove=[1, 2])
            )
            assert check(concurrent, mine) is None
            assert str(rule_text(concurrent, mine)).endswith("then OVERWRITE: replace")


def test_clustering_counts_as_major_compaction_but_may_follow_an_insert() -> None:
    """CFL-2."""
    cluster, major = OperationClass.CLUSTER, OperationClass.MAJOR_COMPACT
    plain = {a for a, _ in TRANSACTION}
    as_later = {a: transaction_rule(a, cluster) for a in plain}
    as_earlier = {b: transaction_rule(cluster, b) for b in plain}

    expected = {a: TRANSACTION[a, major] for a in plain}
    assert as_later == {**expected, OperationClass.INSERT: TransactionRule.COMPACT}
    assert as_earlier == {b: TRANSACTION[major, b] for b in plain}


def test_the_rendered_page_is_that_of_the_published_cells() -> None:
    """CFL-2, CFL-3: the published page equals the rules that the tests check."""
    from checks import render_matrices

    assert (MATRICES / "README.md").read_text(encoding="utf-8") == render_matrices.page()
