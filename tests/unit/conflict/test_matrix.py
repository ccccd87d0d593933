"""The published matrix is the one that decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tablefmt.conflict.check import Conflict, Mine, Same, check
from tablefmt.conflict.matrix import FILE_BLIND, TRANSACTION, Cell, transaction_cell
from tablefmt.model.ddl import schema_from
from tablefmt.model.entry import (
    Application,
    Basis,
    Entry,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
    Totals,
)

MATRICES = Path(__file__).resolve().parents[3] / "spec" / "matrices"


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
    """CFL-1: protocol, metadata, application, matrix; one winner that breaks all four."""
    metadata = Metadata(schema_from("id BIGINT"))
    app = Application("app", 1, "theirs")
    winner = Entry(
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
        protocol=ProtocolFeatures(),
        metadata=metadata,
        application=app,
    )
    mine = Mine(
        cls=OperationClass.INSERT,
        granularity="transaction",
        isolation="WriteSerializable",
        scope=None,
        metadata=metadata,
        application=replace(app, digest="mine"),
    )
    rules = []
    for less in ("protocol", "metadata", "application", ""):
        verdict = check(winner, mine)
        assert isinstance(verdict, Conflict)
        rules.append((verdict.rule, verdict.error.__name__))
        winner = replace(winner, **{less: None}) if less else winner
    assert rules == [
        ("CFL-4", "ProtocolChangedException"),
        ("CFL-5", "MetadataChangedException"),
        ("CFL-6", "ConcurrentTransactionException"),
        ("CFL-2", "ConcurrentWriteException"),
    ]
    winner = replace(winner, application=app)
    assert check(winner, replace(mine, application=app)) is Same.ALREADY_APPLIED


def test_an_insert_fails_by_no_cell_of_file_and_row() -> None:
    """CFL-3: every published cell with INSERT as the later says never, and so do ours."""
    text = (MATRICES / "file_and_row.json").read_text(encoding="utf-8")
    cells = [c for c in json.loads(text)["cells"] if c["later"] == "INSERT"]
    names = {"COMPACT": ["MINOR_COMPACT", "MAJOR_COMPACT"]}
    earlier = {name for c in cells for name in names.get(c["earlier"], [c["earlier"]])}

    assert {c["conflict"] for c in cells} == {"never"}
    ours = {a.value for (a, b), cell in FILE_BLIND.items() if b is OperationClass.INSERT}
    assert ours == earlier | {"OVERWRITE"}


def test_an_overwrite_that_reads_nothing_replaces_whatever_came_before() -> None:
    """CFL-3."""
    later = {a: c for (a, b), c in FILE_BLIND.items() if b is OperationClass.OVERWRITE}
    no_rows = {OperationClass.METADATA, OperationClass.PROTOCOL}
    assert later == dict.fromkeys(set(OperationClass) - no_rows, Cell.REPLACE)


def test_clustering_counts_as_major_compaction_but_may_follow_an_insert() -> None:
    """CFL-2."""
    cluster, major = OperationClass.CLUSTER, OperationClass.MAJOR_COMPACT
    plain = {a for a, _ in TRANSACTION}
    as_later = {a: transaction_cell(a, cluster) for a in plain}
    as_earlier = {b: transaction_cell(cluster, b) for b in plain}

    expected = {a: TRANSACTION[a, major] for a in plain}
    assert as_later == {**expected, OperationClass.INSERT: Cell.COMPACT}
    assert as_earlier == {b: TRANSACTION[major, b] for b in plain}
