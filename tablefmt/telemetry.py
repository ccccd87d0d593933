"""Log messages with fields, and OpenTelemetry spans: the same facts for people and for programs.

Each event has a level, a text and a fixed set of fields. The text goes to the logger of the module
that reports it. The fields are in the attribute `tablefmt` of the log record, as JSON values.

Spans need no setting. They are made if the program has imported OpenTelemetry's API; a program
that collects spans has. This module imports no part of OpenTelemetry.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tablefmt.printable import printable


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of event."""

    level: int
    text: str
    """Message with `%(name)s` for fields."""
    fields: tuple[str, ...]
    """All fields, besides `event` and `table`."""


_WORK = ("operation", "transaction")

EVENTS: Mapping[str, Event] = {
    "probe": Event(
        logging.INFO, "checked that the store of %(table)s honours put-if-absent", ("safe",)
    ),
    "commit": Event(
        logging.INFO,
        "committed version %(version)s of %(table)s: %(operation)s",
        ("version", *_WORK, "metrics", "rebased_over"),
    ),
    "rebase": Event(
        logging.DEBUG,
        "version %(version)s of %(table)s: %(operation)s may follow the concurrent commit "
        "%(winner_version)s, %(winner_operation)s, by %(rule)s",
        ("version", *_WORK, "winner_version", "winner_operation", "rule", "cell"),
    ),
    "conflict": Event(
        logging.INFO,
        "%(operation)s on %(table)s conflicts with version %(winner_version)s, "
        "%(winner_operation)s, by %(rule)s: %(reason)s",
        (
            *_WORK,
            "error",
            "reason",
            "winner_version",
            "winner_operation",
            "rule",
            "cell",
            "evidence",
        ),
    ),
    "rejected": Event(
        logging.INFO,
        "%(operation)s on %(table)s was not committed: %(reason)s",
        (*_WORK, "reason"),
    ),
    "unknown": Event(
        logging.WARNING,
        "%(operation)s on %(table)s may have been committed as version %(version)s: %(reason)s",
        ("version", *_WORK, "reason"),
    ),
    "nothing to commit": Event(
        logging.DEBUG,
        "%(operation)s on %(table)s made no version: %(reason)s",
        (*_WORK, "reason"),
    ),
    "retry": Event(
        logging.INFO,
        "%(operation)s on %(table)s is staged again after a conflict, attempt %(attempt)s",
        (*_WORK, "attempt"),
    ),
    "checkpoint": Event(
        logging.INFO,
        "wrote the checkpoint of version %(version)s of %(table)s: %(path)s",
        ("version", "path"),
    ),
    "vacuum": Event(
        logging.INFO,
        "vacuumed %(table)s: removed %(removed)s of %(listed)s objects, %(failed)s not removed",
        ("version", "oldest", "listed", "removed", "failed"),
    ),
    "log expiry": Event(
        logging.INFO,
        "expired log entries of %(table)s: removed %(removed)s, %(failed)s not removed",
        ("version", "oldest", "removed", "failed"),
    ),
    "maintenance": Event(
        logging.INFO,
        "maintenance of %(table)s: %(work)s: %(outcome)s",
        ("work", "outcome", "reason", "result", "seconds"),
    ),
}
"""Every event by its name."""


def log_event(logger: logging.Logger, event: str, table: str, **fields: Any) -> None:
    """Log one event, if its level is on.

    Args:
        logger: of the module that reports it.
        event: a name of EVENTS.
        table: address of the table.
        fields: those of the event. Values are what JSON can say.
    """
    kind = EVENTS[event]
    if not logger.isEnabledFor(kind.level):
        return
    assert fields.keys() == set(kind.fields), (event, sorted(fields))
    shown = {"table": table, **fields}
    text = kind.text % {name: printable(str(value)) for name, value in shown.items()}
    # Handlers of JSON logs copy the attribute. A plain message needs no arguments.
    logger.log(kind.level, "%s", text, extra={"tablefmt": {"event": event, **shown}}, stacklevel=2)


AddFields = Callable[..., None]
"""Adds attributes to a span, by name."""


@contextmanager
def span(name: str, table: str, **fields: Any) -> Iterator[AddFields]:
    """Trace the context as the span `tablefmt.<name>`; do nothing without OpenTelemetry's API.

    An exception that leaves the context is recorded in the span.

    Args:
        name: of the work.
        table: address of the table.
        fields: attributes: text, numbers, flags, or lists of one of these. None is left out.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield _ignore
        return
    tracer = trace.get_tracer("tablefmt")
    with tracer.start_as_current_span(
        f"tablefmt.{name}", attributes=_attributes({"table": table, **fields})
    ) as active:
        yield lambda **found: active.set_attributes(_attributes(found))


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"tablefmt.{name}": value for name, value in fields.items() if value is not None}


def _ignore(**_: Any) -> None:
    """Take attributes of no span."""
