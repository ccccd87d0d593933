"""What Spark's Python workers need: tablefmt, and what the driver's store is reached with.

Compaction, clustering, copy-on-write and the Arrow backend run tablefmt in the workers. A worker is
another process, often on another machine, with another Python and another environment.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

from tablefmt.spark.jvm.pyspark_parts import has_jvm
from tablefmt.spark.runtime.failures import workers_without
from tablefmt.spark.runtime.frames import Session, functions_of
from tablefmt.spark.runtime.jobs import job_description
from tablefmt.store.protocol import Store

_checked: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_log = logging.getLogger("tablefmt.spark")


def check_workers(spark: Session) -> None:
    """Make sure that the Python of Spark's workers has tablefmt: one small job an application.

    Raises:
        UnsupportedFeatureError: it has not. The message names the interpreter.
    """
    connect = not has_jvm(spark)
    owner: Any = spark if connect else spark.sparkContext
    python = "" if connect else str(owner.pythonExec)
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
    """Return what a worker says: "" if it has tablefmt, else its interpreter and its error."""

    from pyspark.sql.types import StringType

    # PySpark sends a function by its module's name, but one inside another function by its code.
    def tablefmt_in_workers(_: int) -> str:
        import sys

        try:
            import tablefmt.spark.backends.workers  # noqa: F401
        except Exception as error:
            python = f"{sys.executable} (Python {sys.version.split()[0]})"
            return f"{python}\t{type(error).__name__}: {error}"
        return ""

    # Without Arrow, which such a worker may lack too. A type by name would need a JVM at hand.
    asked = functions_of(spark).udf(tablefmt_in_workers, StringType(), useArrow=False)
    try:
        answered: str = spark.range(0, 1, 1, 1).select(asked("id")).collect()[0][0]
    except Exception as error:
        # The work itself will fail in the same way, and its error says more.
        _log.debug("Spark's workers could not be asked for tablefmt: %s", error)
        return ""
    return answered


def for_workers(store: Store) -> Store:
    """Return the store as a task needs it: with the credentials that this process resolved.

    Call it where a task is made, so that keys that expire are those of this moment. The result goes
    into pickled functions alone, never into a plan, a log or a file.
    """
    resolved = getattr(store, "with_credentials", None)
    if resolved is None:
        return store
    carried: Store = resolved()
    return carried
