"""PySpark's objects: its types as they are called here, and what of the JVM is behind them.

Sessions and DataFrames are classic or of Spark Connect. PySpark publishes none of its private
parts, and each is in one function here: where one is missing, the function raises AttributeError. A
function that may be given an object of Spark Connect takes it for one then.

What is kept for sessions is kept by their JVM's name for them, and only while they run. A session
lives as long as its context, which `spark.stop()` ends. A `SessionCache` holds contexts weakly and
lets go of those that were stopped as soon as anybody asks it anything.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.types import DataType
else:
    # PySpark is not imported until it is needed.
    Column = DataFrame = DataType = Session = Any

__all__ = ["Column", "DataFrame", "DataType", "Functions", "JavaObject", "Session", "functions_of"]

Functions = Any
"""The module `pyspark.sql.functions`, or its namesake for Spark Connect."""

JavaObject = Any
"""What py4j gives for an object of the JVM, whose class no Python type tells."""


def functions_of(frame: DataFrame | Session) -> Functions:
    """`pyspark.sql.functions` for the kind of session that a DataFrame is of.

    One process may have sessions of both kinds; the plain module serves one of them.
    """
    connect = type(frame).__module__.startswith("pyspark.sql.connect")
    return importlib.import_module(f"pyspark.sql{'.connect' if connect else ''}.functions")


def has_jvm(spark: object) -> bool:
    """Return whether a session has a JVM at hand, as classic ones have."""
    return getattr(spark, "_jsparkSession", None) is not None


def has_rows(frame: object) -> bool:
    """Return whether a DataFrame is one of a session with a JVM at hand."""
    return getattr(frame, "_jdf", None) is not None


def java_session(spark: Session) -> JavaObject:
    """Return the SparkSession of the JVM."""
    return spark._jsparkSession


def java_rows(frame: DataFrame) -> JavaObject:
    """Return the Dataset of the JVM."""
    return frame._jdf


def java_rows_if_any(frame: object) -> JavaObject | None:
    """Return the Dataset of the JVM; None in Spark Connect."""
    return getattr(frame, "_jdf", None)


def java_column(column: Column) -> JavaObject | None:
    """Return the Column of the JVM; None: it is one of Spark Connect."""
    return getattr(column, "_jc", None)


def java_conf(spark: Session) -> JavaObject | None:
    """Return the settings of the JVM's session; None in Spark Connect."""
    return getattr(spark.conf, "_jconf", None)


def java_writer(writer: object) -> JavaObject | None:
    """Return the writer of the JVM behind a DataFrameWriter or DataStreamWriter; None in Spark
    Connect.
    """
    return getattr(writer, "_jwrite", None)


def java_reader(reader: object) -> JavaObject | None:
    """Return the reader of the JVM behind a DataFrameReader or DataStreamReader; None in Spark
    Connect.
    """
    return getattr(reader, "_jreader", None)


def java_exception(error: BaseException) -> JavaObject | None:
    """Return the exception of the JVM that PySpark has made an error of its own of."""
    return getattr(error, "_origin", None)


def context_of(spark: Session) -> JavaObject | None:
    """Return the SparkContext; None in Spark Connect, which would raise."""
    return getattr(spark, "_sc", None)


def jvm_of(spark: Session) -> JavaObject:
    """Return py4j's view of the JVM: names of packages, classes and static methods."""
    return spark._jvm


def active_jvm() -> JavaObject:
    """Return the view of the JVM whose context is active in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context._jvm


def gateway(spark: Session) -> JavaObject:
    """Return the py4j gateway of a classic session."""
    return spark.sparkContext._gateway


def is_context_stopped(context: JavaObject) -> bool:
    """Return whether Python has stopped a SparkContext: PySpark itself says so in this way."""
    return context._jsc is None


def is_stopped(spark: Session) -> bool:
    """Return whether the context of a classic session was stopped, by Python or in the JVM."""
    context = spark.sparkContext
    return is_context_stopped(context) or bool(context._jsc.sc().isStopped())


def is_active_context_stopped() -> bool:
    """Return whether this process has no context that runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return context is None or context._jsc is None or bool(context._jsc.sc().isStopped())


def is_jvm_started() -> bool:
    """Return whether this process has started a JVM, with a context in it or not."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def has_active_context() -> bool:
    """Return whether this process has a SparkContext."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def started_jvm() -> JavaObject:
    """Return the JVM that this process has started, as `jvm_of` takes it."""
    from pyspark import SparkContext

    return SparkContext


def any_session() -> Session | None:
    """Return the session of this thread, or another one of this process; None: there is none."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def active_session() -> Session | None:
    """Return the session that PySpark takes for the active one of this process."""
    from pyspark.sql import SparkSession

    return SparkSession._activeSession


def set_active_session(spark: Session | None) -> None:
    """Undo what a call of the JVM's `setActiveSession` made PySpark believe."""
    from pyspark.sql import SparkSession

    SparkSession._activeSession = spark


def session_from(java: JavaObject) -> Session:
    """Return PySpark's object for a session of the JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession(SparkContext._active_spark_context, java)


def frame_from(java: JavaObject, spark: Session) -> DataFrame:
    """Return PySpark's object for a Dataset of the JVM."""
    from pyspark.sql import DataFrame

    return DataFrame(java, spark)


def column_from(java: JavaObject) -> Column:
    """Return PySpark's object for a Column of the JVM."""
    from pyspark.sql.classic.column import Column

    return Column(java)


Value = TypeVar("Value")


class SessionCache(Generic[Value]):
    """Values by session and key: of each context those used last.

    A value must not refer to a Python session or context: it would keep that alive.
    """

    def __init__(self, most: int) -> None:
        """`most` values a context are kept."""
        self._most = most
        self._lock = threading.Lock()
        self._by_context: weakref.WeakKeyDictionary[JavaObject, OrderedDict[Hashable, Value]] = (
            weakref.WeakKeyDictionary()
        )

    def get(self, spark: Session, key: Hashable, make: Callable[[], Value]) -> Value:
        """What is kept for a classic session under `key`; else what `make` gives, kept from now on.

        Two threads that ask at once may both make it; both get the same one.
        """
        known = java_session(spark).sessionUUID(), key
        with self._lock:
            value = self._of(spark.sparkContext).get(known)
        if value is None:
            value = make()
        with self._lock:
            values = self._of(spark.sparkContext)
            value = values.setdefault(known, value)
            values.move_to_end(known)
            while len(values) > self._most:
                values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._by_context.clear()

    def __len__(self) -> int:
        with self._lock:
            self._forget_stopped()
            return sum(map(len, self._by_context.values()))

    def _of(self, context: JavaObject) -> OrderedDict[Hashable, Value]:
        self._forget_stopped()
        return self._by_context.setdefault(context, OrderedDict())

    def _forget_stopped(self) -> None:
        for context in [each for each in self._by_context if is_context_stopped(each)]:
            del self._by_context[context]
