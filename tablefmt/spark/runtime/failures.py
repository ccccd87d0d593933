"""Errors that cross a JVM or a Python worker, or that Spark itself raises for a statement.

They travel as text, and come out as themselves. `marked` gives the text, with a machine-readable
record behind the human message; `recovered` finds the record in whatever Spark wrapped around it.
`install` makes PySpark raise what was recovered. `statement_errors` tells what Spark refuses of a
statement as the errors of this package. The rest is pure.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import logging
import re
import sys
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from tablefmt import errors
from tablefmt.errors import (
    CommitRejectedError,
    InvalidPredicateError,
    SchemaMismatchError,
    StoreError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.model.name_matching import folded
from tablefmt.spark.pyspark_objects import (
    any_session,
    has_jvm,
    is_active_context_stopped,
    java_exception,
    java_session,
    jvm_of,
)
from tablefmt.spark.runtime.spark_messages import broken_check, lost_file
from tablefmt.spark.runtime.sql_text import parser_of

RECORD_BYTES_MAX = 1 << 20
"""A record that unpacks to more than this is not one of ours."""

_CAUSES_MAX = 50
_RECORD = re.compile(r"\[tablefmt:([A-Za-z0-9_=-]+)\]")
_SAVE_MODE = re.compile(
    r'\[UNSUPPORTED_DATA_SOURCE_SAVE_MODE\] The data source "tablefmt" [^\n]* the "?(\w+)"? mode',
    re.IGNORECASE,
)
_UNREGISTERED = re.compile(
    r"\[DATA_SOURCE_NOT_FOUND\] [^\n:]*: tablefmt\. |Python is not connected: call tablefmt\.spark"
    r"|`tablefmt, in a session without tablefmt`",
    re.IGNORECASE,
)
_BY_PATH = re.compile(
    r"\[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY\] [^\n:]*: tablefmt\b", re.IGNORECASE
)

_NO_TABLEFMT = re.compile(r"ModuleNotFoundError: (No module named 'tablefmt(?:[.][^']*)?')")

_MISFIT = re.compile(
    r"\[(?:INSERT_COLUMN_ARITY_MISMATCH|INCOMPATIBLE_DATA_FOR_TABLE)\.\w+\] "
    r"(Cannot write [^\n]*? `spark_catalog`\.(`(?:[^`]|``)+`\.`(?:[^`]|``)+`).*?)(?:\. SQLSTATE|$)",
    re.DOTALL,
)
DOES_NOT_FIT = ("[CAST_OVERFLOW", "[NUMERIC_VALUE_OUT_OF_RANGE")
"""What Spark says of a value that a cast to its column's type cannot hold."""

_WRAPPERS = ("org.apache.spark.SparkException", "java.util.concurrent.ExecutionException")
_SEVERAL_ROWS = "[SCALAR_SUBQUERY_TOO_MANY_ROWS]"

_NAME = re.compile("`((?:[^`]|``)+)`")

_log = logging.getLogger(__name__)
_handed = threading.local()


def marked(error: TablefmtError) -> str:
    """The message of an error, with what `recovered` needs behind it."""
    return f"{error} {record_of(error)}"


FAILED = "\0tablefmt "
"""Begins the text that a callback of the JVM answers with instead of raising: see Bridge.java."""


def hand_over(error: TablefmtError) -> str:
    """`marked`, for the JVM that called this thread. A session that is stopped loses the text: what
    Spark raises then is a failure of its own clean-up, and this thread knows what it hides.
    """
    _handed.error = error
    return marked(error)


def answered(verb: Callable[..., Any], *arguments: Any) -> Any:
    """What a verb answers to the JVM. Errors go back as values: py4j would wrap them in text."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        return verb(*arguments)
    except TablefmtError as error:
        return FAILED + hand_over(error)
    except Py4JJavaError as error:
        cause = cause_of(error.java_exception)
        return FAILED + hand_over(cause) if isinstance(cause, TablefmtError) else cause
    except CapturedException as error:
        origin = java_exception(error)
        if origin is not None:
            return origin
        return FAILED + str(error)
    except Exception as error:
        _log.debug("tablefmt failed in a callback", exc_info=True)
        return FAILED + "".join(traceback.format_exception(error))


def _hidden() -> TablefmtError | None:
    """What was handed over and got lost, once."""
    error: TablefmtError | None = _handed.__dict__.pop("error", None)
    return error if is_active_context_stopped() else None


def record_of(error: TablefmtError) -> str:
    """An error as one word of text in brackets: class, arguments, public attributes."""
    kind = next(k for k in type(error).__mro__ if getattr(errors, k.__name__, None) is k)
    fields = {n: _packed(v) for n, v in vars(error).items() if not n.startswith("_")}
    record = [kind.__name__, _packed(error.args), fields]
    body = zlib.compress(json.dumps(record, separators=(",", ":")).encode("utf-8"), 9)
    return f"[tablefmt:{base64.urlsafe_b64encode(body).decode('ascii')}]"


def recovered(text: str) -> TablefmtError | None:
    """The error that a text carries; the last one of several, None if there is none.

    Line breaks inside the record do no harm; whatever is damaged or unknown counts as none.
    """
    for record in reversed(_RECORD.findall("".join(text.split()))):
        error = _restored(record)
        if error is not None:
            return error
    return None


def translated(text: str) -> TablefmtError | None:
    """What to say in place of a message of Spark's own that sends the user the wrong way."""
    check = broken_check(text)
    if check is not None:
        return check
    mode = _SAVE_MODE.search(text)
    if mode is not None:
        return UnsupportedFeatureError(
            f"Spark itself refuses mode {mode[1]!r} for this source: use mode append or overwrite, "
            "or tablefmt.spark.write(df, uri, mode=…), which has error and ignore too",
            [f"mode:{mode[1]}"],
        )
    if _UNREGISTERED.search(text):
        return UnsupportedFeatureError(
            "this Spark session does not know tablefmt yet; call tablefmt.spark.register(spark) "
            "once a session",
            ["spark:unregistered"],
        )
    lacking = _NO_TABLEFMT.search(text)
    if lacking is not None:
        return workers_without(lacking[1])
    if _BY_PATH.search(text):
        return UnsupportedFeatureError(
            "tablefmt.`path` takes an absolute path, in a session that is registered and has a JVM "
            "at hand, and whose spark.sql.catalog.spark_catalog, if it is set, asks Spark's own "
            "catalog; elsewhere CREATE TEMPORARY VIEW v USING tablefmt OPTIONS (path '…')",
            ["sql:path"],
        )
    return None


def workers_without(problem: str, interpreter: str = "") -> UnsupportedFeatureError:
    """Return the error for Python workers that cannot import tablefmt.

    Args:
        problem: what the import said.
        interpreter: of the worker, if it is known.
    """
    return UnsupportedFeatureError(
        f"Spark's Python workers cannot import tablefmt{interpreter and ' with ' + interpreter}: "
        f"{problem}. Compaction, clustering, copy-on-write and the Arrow backend run in the "
        "workers. Install tablefmt in the workers' Python on every machine, in the version of the "
        "driver, or point spark.pyspark.python at a Python that has it",
        ["spark:workers"],
    )


def misfit(text: str) -> tuple[str, SchemaMismatchError] | None:
    """What Spark itself says of rows that a catalog table cannot take: the table, and our error."""
    match = _MISFIT.search(text)
    if match is None:
        return None
    sentence = " ".join(match[1].split())
    named = [] if "_ARITY_" in match[0] else _NAME.findall(sentence.partition(match[2])[2])
    columns = [name.replace("``", "`") for name in named]
    return match[2], SchemaMismatchError(f"{sentence}. Nothing was written", columns)


def understood(texts: list[str]) -> TablefmtError | None:
    """The error behind the messages of a chain of causes, from the outermost on."""
    for read in (recovered, translated):
        for text in texts:
            error = read(text)
            if error is not None:
                return error
    return None


def cause_of(exception: Any) -> Any:
    """What to raise for a Java exception that PySpark has no class for, in a statement of ours: an
    error of ours, or the exception that it only wraps.
    """
    while exception.getCause() is not None and exception.getClass().getName() in _WRAPPERS:
        if str(exception.getMessage()).startswith("["):
            break
        exception = exception.getCause()
    message = str(exception.getMessage())
    if message.startswith(_SEVERAL_ROWS):
        return InvalidPredicateError(
            f"a sub-query that stands for one value gives several rows: {message.splitlines()[0]} "
            "Nothing was written; let it give one, with an aggregate or LIMIT 1"
        )
    return exception


def raised_for(exception: Any) -> BaseException | None:
    """The same as Python raises it; None for what stays the Py4JJavaError that it is."""
    from pyspark.errors.exceptions import captured

    cause = cause_of(exception)
    if isinstance(cause, TablefmtError):
        return cause
    converted: BaseException = captured.convert_exception(cause)
    return None if isinstance(converted, captured.UnknownException) else converted


@contextmanager
def carrying() -> Iterator[None]:
    """Around code that Spark calls in a worker: its errors leave as text that can be recovered."""
    try:
        yield
    except TablefmtError as error:
        if isinstance(error, StoreError | CommitRejectedError) and _is_worker():
            error = _in_workers(error)
        kind = type(error)
        carrier = kind.__new__(kind)
        carrier.__dict__.update(vars(error))
        carrier.args = (marked(error),)
        raise carrier from None


def _in_workers(error: StoreError | CommitRejectedError) -> TablefmtError:
    """Say where a request failed: in the driver's environment the same one may work."""
    if isinstance(error, CommitRejectedError):
        return CommitRejectedError(f"in Spark's workers, {error.reason}")
    return StoreError(f"in Spark's workers: {error}", retryable=error.retryable)


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None


def install() -> None:
    """Make PySpark raise the TablefmtError that an exception of the JVM carries, and no stack.

    Exceptions that carry none stay exactly as they are. For the whole process, and only once; the
    part for Spark Connect as soon as that is in use.
    """
    try:
        from pyspark.errors.exceptions import captured
    except ImportError:
        return
    _wrap(captured, _java_texts)
    for name in ("pyspark.errors.exceptions.connect", "pyspark.sql.connect.client.core"):
        # Loading it takes a second and needs grpc: whoever has a Connect session has it.
        module = sys.modules.get(name)
        if module is not None:
            _wrap(module, _connect_texts)


def _wrap(module: Any, texts: Callable[..., list[str]]) -> None:
    original = getattr(module, "convert_exception", None)
    if original is None:
        _log.warning("errors keep Spark's own form: %s has no convert_exception", module.__name__)
        return
    if getattr(original, "tablefmt", False):
        return

    @functools.wraps(original)
    def convert_exception(*arguments: Any, **named: Any) -> BaseException:
        try:
            raised_texts = texts(*arguments, **named)
            error = _said(raised_texts)
        except Exception:
            # What the user is to see is the failure of the query, not one of ours on top.
            _log.debug("an exception of Spark's could not be read", exc_info=True)
            error = None
        converted: BaseException = error or original(*arguments, **named)
        return converted

    convert_exception.tablefmt = True  # type: ignore[attr-defined]
    module.convert_exception = convert_exception


def _said(texts: list[str]) -> BaseException | None:
    return understood(texts) or lost_file(texts) or _refused(texts) or _hidden()


def _refused(texts: list[str]) -> TablefmtError | None:
    """`misfit`, if the table is one of ours: others keep Spark's own words."""
    refusal = misfit(texts[0]) if texts else None
    # All sessions of a process share the catalog; a thread of its own knows none of them.
    session = refusal and (any_session())
    if refusal is None or session is None or not has_jvm(session):
        return None
    state = java_session(session).sessionState()
    name = parser_of(jvm_of(session)).parseTableIdentifier(refusal[0])
    table = state.catalog().getTableMetadata(name)
    provider = table.provider()
    ours = provider.isDefined() and folded(provider.get()) == "tablefmt"
    return refusal[1] if ours else None


def _java_texts(exception: Any) -> list[str]:
    """Messages of a Java exception and its causes."""
    texts: list[str] = []
    while exception is not None and len(texts) < _CAUSES_MAX:
        texts.append(str(exception.getMessage()))
        exception = exception.getCause()
    return texts


def _connect_texts(info: Any, message: str, details: Any = None, *_: Any, **__: Any) -> list[str]:
    """Messages that a Connect server sent: the error's, its causes', and the shortened ones."""
    texts = [] if details is None else [error.message for error in details.errors]
    return [*texts, message, info.metadata.get("stackTrace", "")]


def _restored(record: str) -> TablefmtError | None:
    try:
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(base64.urlsafe_b64decode(record), RECORD_BYTES_MAX)
        if not unpacker.eof:
            return None
        name, arguments, fields = json.loads(body)
        kind = getattr(errors, name, None)
        if not (isinstance(kind, type) and issubclass(kind, TablefmtError)):
            return None
        error = kind.__new__(kind)
        error.args = _unpacked(arguments)
        error.__dict__.update({n: _unpacked(v) for n, v in fields.items()})
        return error
    except (ValueError, TypeError, AttributeError, ArithmeticError, zlib.error):
        return None


def _packed(value: Any) -> Any:
    """A value as JSON; what JSON has no word for is a one-key object."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [_packed(v) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_packed(k), _packed(v)] for k, v in value.items()]}
    if isinstance(value, dt.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return str(value)


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "dict":
        return {_unpacked(k): _unpacked(v) for k, v in inner}
    return _READERS[kind](inner)


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda inner: tuple(map(_unpacked, inner)),
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
}


_OWN = re.compile(r", `__tablefmt_\w+`|`__tablefmt_\w+`(, )?")
"""Columns of ours among those that Spark suggests."""


@contextmanager
def statement_errors() -> Iterator[None]:
    """Spark's refusals of an expression come out as ours."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except TablefmtError:
        raise
    except (AnalysisException, ParseException) as error:
        # A text that cannot be parsed is told of after an empty line.
        first = _OWN.sub("", str(error).strip().splitlines()[0])
        raise InvalidPredicateError(f"Spark refuses the statement: {first}") from None
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        raise raised_for(java) or error from None
