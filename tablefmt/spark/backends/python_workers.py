"""Prepare Spark's Python workers, and read what their tasks send back to the driver.

Compaction, clustering, copy-on-write and the Arrow backend run tablefmt in the workers. A worker is
another process, often on another machine with another Python environment. It needs tablefmt, and
the driver's credentials for the store. A task sends back the metadata of the files that it wrote,
as bytes.
"""

from __future__ import annotations

import logging
import threading
import weakref

import orjson

from tablefmt.model.log_entry import AddedFiles
from tablefmt.spark.pyspark_objects import Session, SparkContext, functions_of, has_jvm
from tablefmt.spark.runtime.failures import workers_without
from tablefmt.spark.runtime.spark_jobs import job_description
from tablefmt.store.object_store import Store


def described(added: AddedFiles | None) -> bytes:
    """Return the files that a task wrote, as bytes for the driver."""
    return orjson.dumps(None if added is None else dict(added.columns))


def read_back(body: bytes) -> AddedFiles | None:
    """Return the files of bytes from `described`."""
    columns = orjson.loads(body)
    return None if columns is None else AddedFiles(columns)


_checked: weakref.WeakKeyDictionary[Session | SparkContext, set[str]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_log = logging.getLogger("tablefmt.spark")


def check_workers(spark: Session) -> None:
    """Check that the Python of Spark's workers has tablefmt, by one small job per application.

    Raises:
        UnsupportedFeatureError: tablefmt cannot be imported there. The message names the
            interpreter.
    """
    connect = not has_jvm(spark)
    owner: Session | SparkContext = spark if connect else spark.sparkContext
    python = "" if connect else str(spark.sparkContext.pythonExec)
    with _lock:
        if python in _checked.setdefault(owner, set()):
            return
    with job_description(spark, "checking that Spark's workers have tablefmt"):
        interpreter, _, problem = _answer(spark).partition("\t")
    if problem:
        raise workers_without(problem, interpreter)
    with _lock:
        _checked.setdefault(owner, set()).add(python)


def _answer(spark: Session) -> str:
    """Return "" if a worker has tablefmt, else its interpreter and its error after a tab."""

    from pyspark.sql.types import StringType

    # PySpark pickles a nested function by value, so the worker need not import this module.
    def tablefmt_in_workers(_: int) -> str:
        import sys

        try:
            import tablefmt.spark.backends.python_workers  # noqa: F401
        except Exception as error:
            python = f"{sys.executable} (Python {sys.version.split()[0]})"
            return f"{python}\t{type(error).__name__}: {error}"
        return ""

    # No Arrow, because such a worker may lack it, too. A type by name would need a JVM.
    asked = functions_of(spark).udf(tablefmt_in_workers, StringType(), useArrow=False)
    try:
        answered: str = spark.range(0, 1, 1, 1).select(asked("id")).collect()[0][0]
    except Exception as error:
        # The statement itself will fail in the same way, with a better error.
        _log.debug("cannot check if Spark's workers have tablefmt: %s", error)
        return ""
    return answered


def for_workers(store: Store) -> Store:
    """Return the store for a task, with the credentials that this process resolved.

    Call it when a task is made, so that expiring keys are fresh. Put the result into pickled
    functions only, never into a plan, a log or a file.
    """
    return store.with_credentials()
