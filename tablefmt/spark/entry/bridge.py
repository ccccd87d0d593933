"""What Spark's driver asks of Python: the verbs behind `format("tablefmt")` and SQL.

The Java classes decide nothing; each of their calls comes in here. What is a Java map or array of
text there comes as JSON text: one call into the JVM an element would be slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.spark.entry import (
    define_verbs,
    named_reads,
    read_verbs,
    sink_verbs,
    statement_verbs,
    stream_verbs,
    write_verbs,
)
from tablefmt.spark.entry.refusals import REFUSALS
from tablefmt.spark.jvm import messages
from tablefmt.spark.runtime.failures import answered
from tablefmt.spark.runtime.frames import JavaObject

VERBS: Mapping[str, Callable[..., Any]] = {
    **read_verbs.VERBS,
    **named_reads.VERBS,
    **write_verbs.VERBS,
    **define_verbs.VERBS,
    **statement_verbs.VERBS,
    **sink_verbs.VERBS,
    **stream_verbs.VERBS,
    **REFUSALS,
}


def answer(request: JavaObject) -> Any:
    """Answer one call of Bridge.java. Errors go back as values: py4j would wrap them in text."""
    verb, arguments = request[0], list(request[1])
    return answered(_carried_out, verb, arguments)


def _carried_out(verb: str, arguments: list[Any]) -> Any:
    messages.check_request(verb, arguments)
    answer = VERBS[verb](*arguments)
    messages.check_answer(verb, answer)
    return answer
