"""Log records with fields, and OpenTelemetry's spans, of whole operations."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tablefmt
from tablefmt.commit.transaction_plan import Staged
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentModificationException,
    UnsafeStoreError,
)
from tablefmt.model.log_entry import Operation, OperationClass
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import commit_with_retries
from tablefmt.store.location_checks import probe
from tablefmt.store.object_store import NoAnswer, PutReply, Refused, Written
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.telemetry import EVENTS
from tests.places import ROOT
from tests.tables import Clock, Dated, behind, memory, new_table, rows

DAY = 86_400
SEEN: set[str] = set()
"""Names of events that were taken in this process."""


class Collected(logging.Handler):
    """Keeps the records that have fields."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "tablefmt"):
            self.records.append(record)

    def taken(self) -> list[dict[str, Any]]:
        """Return the fields so far, as a JSON log has them, and forget them."""
        found = [json.loads(json.dumps(record.tablefmt)) for record in self.records]  # type: ignore[attr-defined]
        for fields in found:
            assert fields.keys() == {"event", "table", *EVENTS[fields["event"]].fields}
            SEEN.add(fields["event"])
        self.records.clear()
        return found


@pytest.fixture
def collected() -> Iterator[Collected]:
    logger, handler = logging.getLogger("tablefmt"), Collected()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def of_commit(commit: tablefmt.Commit, uri: str) -> dict[str, Any]:
    """The record of a commit, by what its caller got."""
    return {
        "event": "commit",
        "table": uri,
        "version": commit.version,
        "operation": commit.operation,
        "transaction": commit.transaction,
        "metrics": dict(commit.metrics),
        "rebased_over": [int(over) for over in commit.rebased_over],
    }


def test_commits_rebases_and_conflicts(collected: Collected) -> None:
    table = new_table(checkpointInterval="1000")
    uri = table.uri
    assert [(one["event"], one["operation"]) for one in collected.taken()[-1:]] == [
        ("commit", "CREATE TABLE")
    ]
    commit = table.append(rows(1, 2, 3))
    assert collected.taken() == [of_commit(commit, uri)]

    slow, lost = table.transaction(), table.transaction()
    slow.delete("id = 1")
    lost.delete("id = 2")
    winner = table.update({"p": "'b'"}, "id = 2")
    collected.taken()
    (over,) = (commit := slow.commit()).rebased_over
    assert collected.taken() == [
        {
            "event": "rebase",
            "table": uri,
            "version": 3,
            "operation": "DELETE",
            "transaction": commit.transaction,
            "winner_version": 2,
            "winner_operation": "UPDATE",
            "rule": over.rule,
            "cell": over.cell,
        },
        of_commit(commit, uri),
    ]
    with pytest.raises(ConcurrentModificationException) as info:
        lost.commit()
    error = info.value
    (fields,) = collected.taken()
    assert len(fields.pop("transaction")) == 32
    assert fields == {
        "event": "conflict",
        "table": uri,
        "operation": "DELETE",
        "error": type(error).__name__,
        "reason": error.reason,
        "winner_version": winner.version,
        "winner_operation": "UPDATE",
        "rule": error.rule,
        "cell": error.cell,
        "evidence": json.loads(json.dumps(error.evidence)),
    }


class Answers(ForwardingStore):
    """Gives one reply to each put of an entry; with `keeps`, the entry is there all the same."""

    def __init__(self, inner: Any, reply: PutReply, *, keeps: bool = False) -> None:
        super().__init__(inner)
        self.reply, self.keeps = reply, keeps

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        if self.keeps:
            self.inner.put_if_absent(key, body)
        return self.reply

    def get_many(self, keys: Any) -> list[bytes | None]:
        if isinstance(self.reply, NoAnswer):
            raise self.reply_error()
        return self.inner.get_many(keys)

    def reply_error(self) -> Exception:
        return tablefmt.errors.StoreError("no route", retryable=True)


def test_other_outcomes(collected: Collected) -> None:
    table = new_table()
    table.append(rows(1), application=("a", 1))
    collected.taken()
    refused = behind(table, Answers(table.context.store, Refused("forbidden")))
    with pytest.raises(CommitRejectedError):
        refused.delete("id = 1")
    (fields,) = collected.taken()
    assert (fields["event"], fields["operation"]) == ("rejected", "DELETE")
    assert "forbidden" in fields["reason"]

    silent = behind(table, Answers(table.context.store, NoAnswer("cut"), keeps=True))
    with pytest.raises(CommitUnknownError) as info:
        silent.append(rows(2), deadline=0)
    (fields,) = collected.taken()
    assert fields == {
        "event": "unknown",
        "table": table.uri,
        "version": info.value.version,
        "operation": "WRITE",
        "transaction": info.value.transaction,
        "reason": fields["reason"],
    }
    # A person on call must see an unknown outcome.
    assert [name for name, kind in EVENTS.items() if kind.level >= logging.WARNING] == ["unknown"]


def test_a_commit_that_another_writer_made(collected: Collected) -> None:
    table = new_table()
    table.append(rows(1))
    first, second = table.transaction(), table.transaction()
    first.append(rows(2))
    second.append(rows(2))
    first.commit(application=("a", 1))
    collected.taken()
    assert second.commit(application=("a", 1)).already_applied
    (fields,) = collected.taken()
    assert len(fields.pop("transaction")) == 32
    assert fields == {
        "event": "nothing to commit",
        "table": table.uri,
        "operation": "WRITE",
        "reason": "version 2 has applied this operation already",
    }


def test_work_that_is_staged_again(collected: Collected) -> None:
    table = new_table()
    table.append(rows(1))
    other, attempts = behind(table, table.context.store), []

    def stage(head: Any, txn: Any) -> Staged:
        attempts.append(txn.transaction)
        if len(attempts) == 1:
            other.alter.set_properties({"user.a": "1"})
            collected.taken()
        return Staged(
            transaction=txn.transaction,
            operation=Operation(name="SET TBLPROPERTIES", cls=OperationClass.METADATA),
            read_version=txn.version,
            metadata=head.metadata,
            written_under=head.metadata,
        )

    commit = commit_with_retries(table.context, stage, CommitOptions())
    conflict, retry, made = collected.taken()
    assert (conflict["event"], conflict["error"]) == ("conflict", "MetadataChangedException")
    assert retry == {
        "event": "retry",
        "table": table.uri,
        "operation": "SET TBLPROPERTIES",
        "transaction": attempts[0],
        "attempt": 2,
    }
    assert made == of_commit(commit, table.uri)


def test_maintenance(collected: Collected) -> None:
    clock = Clock()
    table = new_table(Dated(clock), clock=clock, checkpointInterval="2")
    for number in range(6):
        table.append(rows(number))
        clock.forward(20 * DAY)
    collected.taken()
    table.overwrite(rows(7))
    clock.forward(60 * DAY)
    (due,) = collected.taken()
    assert due["event"] == "commit"
    report = table.maintain()
    found = collected.taken()
    assert [one for one in found if one["event"] == "maintenance"] == [
        {
            "event": "maintenance",
            "table": table.uri,
            "work": step.work,
            "outcome": step.outcome,
            "reason": step.reason,
            "result": step.result,
            "seconds": step.seconds,
        }
        for step in report.steps
    ]
    (vacuum,) = (one for one in found if one["event"] == "vacuum")
    (vacuumed,) = (one for one in found if one.get("operation") == "VACUUM")
    assert vacuum["version"] == vacuumed["version"]
    assert (vacuum["removed"], vacuum["failed"]) == (6, 0)
    (expiry,) = (one for one in found if one["event"] == "log expiry")
    assert expiry["removed"] > 0
    made = table.checkpoint()
    assert collected.taken() == [
        {"event": "checkpoint", "table": table.uri, "version": made.version, "path": made.path}
    ]


class Careless(ForwardingStore):
    """A store that tells every creator that it won."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        self.inner.put(key, body)
        return Written()


def test_the_probe(collected: Collected) -> None:
    sound, careless = memory(), Careless(memory())
    probe(sound, "0" * 32)
    with pytest.raises(UnsafeStoreError):
        probe(careless, "0" * 32)
    assert collected.taken() == [
        {"event": "probe", "table": sound.uri, "safe": True},
        {"event": "probe", "table": careless.uri, "safe": False},
    ]


def test_every_event_is_asserted(collected: Collected) -> None:
    SEEN.clear()
    for test in (
        test_commits_rebases_and_conflicts,
        test_other_outcomes,
        test_a_commit_that_another_writer_made,
        test_work_that_is_staged_again,
        test_maintenance,
        test_the_probe,
    ):
        test(collected)
    assert set(EVENTS) == SEEN


def test_messages_have_no_control_characters(collected: Collected) -> None:
    """SEC-1."""
    table = new_table()
    table.append(rows(1), user_metadata={"a": "\x1b[2J"})
    slow = table.transaction()
    slow.delete("id = 1")
    table.delete("id = 1")
    with pytest.raises(ConcurrentModificationException):
        slow.commit()
    texts = [record.getMessage() for record in collected.records]
    assert texts[-1].startswith(f"DELETE on {table.uri} conflicts with version 2, DELETE, by CFL-")
    assert all(text.isprintable() for text in texts)
    assert {record.name.split(".")[0] for record in collected.records} == {"tablefmt"}


@pytest.fixture(scope="module")
def exported() -> InMemorySpanExporter:
    """The spans of this process, which can have one provider for good."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def described(span: ReadableSpan, spans: tuple[ReadableSpan, ...]) -> dict[str, Any]:
    """A span as its name, its parent's name, its attributes, and the exception in it."""
    parents = {one.context.span_id: one.name for one in spans}
    attributes = dict(span.attributes or {})
    attributes.pop("tablefmt.transaction", None)
    return {
        "name": span.name,
        "in": span.parent and parents[span.parent.span_id],
        "fields": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in attributes.items()
        },
        "raised": [(event.attributes or {})["exception.type"] for event in span.events],
    }


def test_spans(exported: InMemorySpanExporter) -> None:
    table = new_table()
    uri = table.uri
    table.append(rows(1))
    slow = table.transaction()
    slow.delete("id = 1")
    exported.clear()
    table.delete("id = 1")
    with pytest.raises(ConcurrentModificationException):
        slow.commit()
    spans = exported.get_finished_spans()
    conflict = "tablefmt.errors.ConcurrentDeleteReadException"
    assert [described(span, spans) for span in spans] == [
        {
            "name": "tablefmt.commit",
            "in": "tablefmt.statement",
            "fields": {
                "tablefmt.table": uri,
                "tablefmt.operation": "DELETE",
                "tablefmt.version": 2,
                "tablefmt.rebased_over": [],
            },
            "raised": [],
        },
        {
            "name": "tablefmt.statement",
            "in": None,
            "fields": {
                "tablefmt.table": uri,
                "tablefmt.operation": "DELETE",
                "tablefmt.version": 2,
                "tablefmt.no_op": False,
            },
            "raised": [],
        },
        {
            "name": "tablefmt.commit",
            "in": None,
            "fields": {"tablefmt.table": uri, "tablefmt.operation": "DELETE"},
            "raised": [conflict],
        },
    ]


@pytest.mark.slow
def test_without_its_api_no_span_is_made() -> None:
    """A program that does not import OpenTelemetry does not pay for it."""
    program = (
        "import sys, tablefmt\n"
        "table = tablefmt.create('memory://spans', 'id BIGINT')\n"
        "assert table.append({'id': [1]}).version == 1\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
