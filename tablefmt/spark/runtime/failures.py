"""Errors that cross a JVM or a Python worker, or that Spark raises for a statement.

Errors travel as text. `marked` returns the text: the message, followed by a machine-readable
record. `recovered` finds the record in any text that Spark wrapped around it. `install` makes
PySpark raise the recovered error. `statement_errors` converts Spark's errors for a statement. All
else is pure.
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
)
from tablefmt.spark.runtime.spark_messages import broken_check, lost_file, without_s3a
from tablefmt.spark.runtime.sql_text import parser

RECORD_BYTES_MAX = 1 << 20
"""Largest unpacked size of a valid record."""

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
"""Spark's error conditions for a value that does not fit its column's type."""

_WRAPPERS = ("org.apache.spark.SparkException", "java.util.concurrent.ExecutionException")
_SEVERAL_ROWS = "[SCALAR_SUBQUERY_TOO_MANY_ROWS]"

_NAME = re.compile("`((?:[^`]|``)+)`")

_log = logging.getLogger(__name__)
_last_error = threading.local()


def marked(error: TablefmtError) -> str:
    """Return the message of an error, followed by the record that `recovered` reads."""
    return f"{error} {record_of(error)}"


FAILED = "\0tablefmt "
"""Prefix of a text that a JVM callback returns instead of raising an error. See Bridge.java."""


def marked_for_jvm(error: TablefmtError) -> str:
    """Return `marked` for the JVM that called this thread, and remember the error in the thread.

    If the session is stopped, the text is lost: Spark raises a failure of its own clean-up. Then
    `_lost_error` finds the remembered error.
    """
    _last_error.error = error
    return marked(error)


def answered(verb: Callable[..., Any], *arguments: Any) -> Any:
    """Return a handler's answer to the JVM. Errors become text: py4j would wrap raised ones."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        return verb(*arguments)
    except TablefmtError as error:
        return FAILED + marked_for_jvm(error)
    except Py4JJavaError as error:
        cause = cause_of(error.java_exception)
        return FAILED + marked_for_jvm(cause) if isinstance(cause, TablefmtError) else cause
    except CapturedException as error:
        origin = java_exception(error)
        if origin is not None:
            return origin
        return FAILED + str(error)
    except Exception as error:
        _log.debug("tablefmt failed in a callback", exc_info=True)
        return FAILED + "".join(traceback.format_exception(error))


def _lost_error() -> TablefmtError | None:
    """Return the remembered error of a stopped session, once."""
    error: TablefmtError | None = _last_error.__dict__.pop("error", None)
    return error if is_active_context_stopped() else None


def record_of(error: TablefmtError) -> str:
    """Return an error as one word in brackets, with its class, arguments and public attributes."""
    kind = next(k for k in type(error).__mro__ if getattr(errors, k.__name__, None) is k)
    fields = {n: _packed(v) for n, v in vars(error).items() if not n.startswith("_")}
    record = [kind.__name__, _packed(error.args), fields]
    body = zlib.compress(json.dumps(record, separators=(",", ":")).encode("utf-8"), 9)
    return f"[tablefmt:{base64.urlsafe_b64encode(body).decode('ascii')}]"


def recovered(text: str) -> TablefmtError | None:
    """Return the error that a text carries: the last one of several, None if there is none.

    Line breaks inside the record are ignored. Damaged and unknown records count as none.
    """
    for record in reversed(_RECORD.findall("".join(text.split()))):
        error = _restored(record)
        if error is not None:
            return error
    return None


def translated(text: str) -> TablefmtError | None:
    """Return the error that replaces a misleading message of Spark. None for other messages."""
    check = broken_check(text)
    if check is not None:
        return check
    mode = _SAVE_MODE.search(text)
    if mode is not None:
        return UnsupportedFeatureError(
            f"Spark itself rejects mode {mode[1]!r} for this source; use mode append or overwrite, "
            "or tablefmt.spark.write(df, uri, mode=…), which also supports error and ignore",
            [f"mode:{mode[1]}"],
        )
    if _UNREGISTERED.search(text):
        return UnsupportedFeatureError(
            "tablefmt is not registered in this Spark session; call tablefmt.spark.register(spark) "
            "once per session",
            ["spark:unregistered"],
        )
    lacking = _NO_TABLEFMT.search(text)
    if lacking is not None:
        return workers_without(lacking[1])
    if _BY_PATH.search(text):
        return UnsupportedFeatureError(
            "tablefmt.`path` needs an absolute path, and a registered session with a JVM; if "
            "spark.sql.catalog.spark_catalog is set, its catalog must delegate to Spark's own. "
            "Elsewhere use CREATE TEMPORARY VIEW v USING tablefmt OPTIONS (path '…')",
            ["sql:path"],
        )
    return None


def workers_without(problem: str, interpreter: str = "") -> UnsupportedFeatureError:
    """Return the error for Python workers that cannot import tablefmt.

    Args:
        problem: the error of the import.
        interpreter: the worker's interpreter, if known.
    """
    return UnsupportedFeatureError(
        f"Spark's Python workers cannot import tablefmt{interpreter and ' with ' + interpreter}: "
        f"{problem}. Compaction, clustering, copy-on-write and the Arrow backend run in the "
        "workers. Install the driver's version of tablefmt in the workers' Python on every "
        "machine, or set spark.pyspark.python to a Python that has it",
        ["spark:workers"],
    )


def misfit(text: str) -> tuple[str, SchemaMismatchError] | None:
    """Return the table and our error for Spark's message that rows do not fit a catalog table."""
    match = _MISFIT.search(text)
    if match is None:
        return None
    sentence = " ".join(match[1].split())
    named = [] if "_ARITY_" in match[0] else _NAME.findall(sentence.partition(match[2])[2])
    columns = [name.replace("``", "`") for name in named]
    return match[2], SchemaMismatchError(f"{sentence}. Nothing was written", columns)


def understood(texts: list[str]) -> TablefmtError | None:
    """Return the error in the messages of a chain of causes, from the outermost on."""
    for read in (recovered, translated):
        for text in texts:
            error = read(text)
            if error is not None:
                return error
    return None


def cause_of(exception: Any) -> Any:
    """Return what to raise for a Java exception in a statement that PySpark has no class for.

    The result is an error of this package, or the Java exception inside its wrappers.
    """
    while exception.getCause() is not None and exception.getClass().getName() in _WRAPPERS:
        if str(exception.getMessage()).startswith("["):
            break
        exception = exception.getCause()
    message = str(exception.getMessage())
    if message.startswith(_SEVERAL_ROWS):
        return InvalidPredicateError(
            "a subquery that must return a single value returned several rows: "
            f"{message.splitlines()[0]} "
            "Nothing was written; use an aggregate or LIMIT 1 in the subquery"
        )
    return exception


def raised_for(exception: Any) -> BaseException | None:
    """Return `cause_of` as a Python exception. None if the Py4JJavaError should stay as it is."""
    from pyspark.errors.exceptions import captured

    cause = cause_of(exception)
    if isinstance(cause, TablefmtError):
        return cause
    converted: BaseException = captured.convert_exception(cause)
    return None if isinstance(converted, captured.UnknownException) else converted


@contextmanager
def carrying() -> Iterator[None]:
    """Make errors of code that Spark calls in a worker leave as text that can be recovered."""
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
    """Add to the message that a worker failed: the same request may work in the driver."""
    if isinstance(error, CommitRejectedError):
        return CommitRejectedError(f"in Spark's workers, {error.reason}")
    return StoreError(f"in Spark's workers: {error}", retryable=error.retryable)


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None


def install() -> None:
    """Make PySpark raise the TablefmtError that an exception of the JVM carries, without its stack.

    Other exceptions stay unchanged. This affects the whole process, and runs only once. The part
    for Spark Connect follows as soon as Connect is in use.
    """
    try:
        from pyspark.errors.exceptions import captured
    except ImportError:
        return
    _wrap(captured, _java_texts)
    for name in ("pyspark.errors.exceptions.connect", "pyspark.sql.connect.client.core"):
        # Importing it takes a second and needs grpc. A process with a Connect session has it.
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
            error = _replacement(raised_texts)
        except Exception:
            # The user must see the failure of the query, not a failure of this function.
            _log.debug("cannot read an exception of Spark", exc_info=True)
            error = None
        converted: BaseException = error or original(*arguments, **named)
        return converted

    convert_exception.tablefmt = True  # type: ignore[attr-defined]
    module.convert_exception = convert_exception


def _replacement(texts: list[str]) -> BaseException | None:
    found = understood(texts) or without_s3a(texts) or lost_file(texts)
    return found or _catalog_misfit(texts) or _lost_error()


def _catalog_misfit(texts: list[str]) -> TablefmtError | None:
    """Return the error of `misfit` for tablefmt tables. Other tables keep Spark's message."""
    refusal = misfit(texts[0]) if texts else None
    # Every session of a process has the same catalog. A new thread has no active session.
    session = refusal and (any_session())
    if refusal is None or session is None or not has_jvm(session):
        return None
    state = java_session(session).sessionState()
    name = parser().parseTableIdentifier(refusal[0])
    table = state.catalog().getTableMetadata(name)
    provider = table.provider()
    ours = provider.isDefined() and folded(provider.get()) == "tablefmt"
    return refusal[1] if ours else None


def _java_texts(exception: Any) -> list[str]:
    """Return the messages of a Java exception and its causes."""
    texts: list[str] = []
    while exception is not None and len(texts) < _CAUSES_MAX:
        texts.append(str(exception.getMessage()))
        exception = exception.getCause()
    return texts


def _connect_texts(info: Any, message: str, details: Any = None, *_: Any, **__: Any) -> list[str]:
    """Return what a Connect server sent: messages of the error and its causes, and the stack."""
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
    """Return a value as JSON. A type that JSON lacks becomes an object with one key."""
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
"""Internal columns of tablefmt among the columns that Spark suggests."""


@contextmanager
def statement_errors() -> Iterator[None]:
    """Convert Spark's errors for an expression to errors of this package."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except TablefmtError:
        raise
    except (AnalysisException, ParseException) as error:
        # For text that it cannot parse, Spark's message begins with an empty line.
        first = _OWN.sub("", str(error).strip().splitlines()[0])
        raise InvalidPredicateError(f"Spark rejects the statement: {first}") from None
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        raise raised_for(java) or error from None
