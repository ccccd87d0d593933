"""PySpark's objects: names for its types, and access to its private parts and the JVM.

Sessions and DataFrames are classic or of Spark Connect. Each private part of PySpark is used in one
function here. If a part is missing, the function raises AttributeError. A function that also takes
objects of Spark Connect treats an object without the part as one of these.

A `SessionCache` stores values by the JVM's session id, while the session runs. A session ends with
its context, by `spark.stop()`. The cache holds contexts weakly, and drops stopped ones on every
use.
"""

from __future__ import annotations

import functools
import importlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.types import DataType, StructType
else:
    # PySpark is imported on first use.
    Column = DataFrame = DataType = Session = SparkContext = StructType = Any

__all__ = [
    "Column",
    "DataFrame",
    "DataType",
    "Functions",
    "JavaObject",
    "Session",
    "SparkContext",
    "StructType",
    "functions_of",
]

JavaObject = Any
"""An object of the JVM, from py4j. Python does not know its class."""


class Functions(Protocol):
    """The module `pyspark.sql.functions`, or its counterpart for Spark Connect.

    Only functions that tablefmt uses are listed.
    """

    __name__: str
    array: Callable[..., Column]
    broadcast: Callable[[DataFrame], DataFrame]
    coalesce: Callable[..., Column]
    col: Callable[[str], Column]
    count: Callable[[Column], Column]
    explode: Callable[[Column], Column]
    expr: Callable[[str], Column]
    lit: Callable[[Any], Column]
    max: Callable[[Column], Column]
    min: Callable[[Column], Column]
    monotonically_increasing_id: Callable[[], Column]
    raise_error: Callable[[Column], Column]
    struct: Callable[..., Column]
    transform: Callable[[Column, Callable[[Column], Column]], Column]
    transform_keys: Callable[[Column, Callable[[Column, Column], Column]], Column]
    transform_values: Callable[[Column, Callable[[Column, Column], Column]], Column]
    udf: Callable[..., Callable[[str], Column]]
    when: Callable[[Column, Column], Column]


def functions_of(frame: DataFrame | Session) -> Functions:
    """Return `pyspark.sql.functions` for the kind of session of a DataFrame or session.

    A process may have sessions of both kinds, and the plain module works with only one of them.
    """
    connect = type(frame).__module__.startswith("pyspark.sql.connect")
    module = importlib.import_module(f"pyspark.sql{'.connect' if connect else ''}.functions")
    return cast("Functions", module)


def has_jvm(spark: object) -> bool:
    """Return whether a session has a JVM in this process, as classic sessions have."""
    return getattr(spark, "_jsparkSession", None) is not None


def alias_of(frame: DataFrame) -> str | None:
    """Return the name that `DataFrame.alias` gave a DataFrame. None: it has no alias."""
    if not has_rows(frame):
        return getattr(cast(Any, frame)._plan, "_alias", None)
    plan = cast(Any, frame)._jdf.queryExecution().logical()
    return str(plan.alias()) if plan.nodeName() == "SubqueryAlias" else None


def source_name(frame: DataFrame) -> str | None:
    """Return the name that qualifies all columns of a DataFrame: its alias, or a table's name.

    None: there is no such name, or only the server of Spark Connect knows it.
    """
    plan = java_rows_if_any(frame)
    if plan is None:
        return alias_of(frame)
    output = plan.queryExecution().analyzed().output()
    names = {
        str(qualifier.last()) if qualifier.nonEmpty() else None
        for qualifier in (output.apply(i).qualifier() for i in range(output.size()))
    }
    return names.pop() if len(names) == 1 else None


def has_rows(frame: object) -> bool:
    """Return whether a DataFrame belongs to a session with a JVM."""
    return getattr(frame, "_jdf", None) is not None


def java_session(spark: Session) -> JavaObject:
    """Return the SparkSession of the JVM."""
    return spark._jsparkSession


def java_rows(frame: DataFrame) -> JavaObject:
    """Return the Dataset of the JVM."""
    return frame._jdf


def java_rows_if_any(frame: object) -> JavaObject | None:
    """Return the Dataset of the JVM. None in Spark Connect."""
    return getattr(frame, "_jdf", None)


def connect_plan(frame: DataFrame) -> str:
    """Return the text of the plan of a Connect client's DataFrame. It asks the server."""
    return cast("ConnectFrame", frame)._explain_string(extended=True)


def java_column(column: Column) -> JavaObject | None:
    """Return the Column of the JVM. None in Spark Connect."""
    return getattr(column, "_jc", None)


def java_conf(spark: Session) -> JavaObject | None:
    """Return the settings of the JVM's session. None in Spark Connect."""
    return getattr(spark.conf, "_jconf", None)


def java_writer(writer: object) -> JavaObject | None:
    """Return the JVM's writer of a DataFrameWriter or DataStreamWriter. None in Spark Connect."""
    return getattr(writer, "_jwrite", None)


def java_reader(reader: object) -> JavaObject | None:
    """Return the JVM's reader of a DataFrameReader or DataStreamReader. None in Spark Connect."""
    return getattr(reader, "_jreader", None)


def java_exception(error: BaseException) -> JavaObject | None:
    """Return the JVM's exception that PySpark converted to an error of its own."""
    return getattr(error, "_origin", None)


def context_of(spark: Session) -> SparkContext | None:
    """Return the SparkContext. None in Spark Connect, where `sparkContext` would raise."""
    return getattr(spark, "_sc", None)


def jvm_of(spark: Session) -> JavaObject:
    """Return py4j's view of the JVM: names of packages, classes and static methods."""
    return spark._jvm


_java_classes: weakref.WeakKeyDictionary[JavaObject, dict[str, JavaObject]] = (
    weakref.WeakKeyDictionary()
)


def java_class(name: str) -> JavaObject:
    """Return a class of the JVM of this process, by its full name.

    Each name is resolved once per JVM, because every part of it costs a call and a search of
    Spark's jars.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    known = _java_classes.setdefault(gateway, {})
    if name not in known:
        known[name] = functools.reduce(getattr, name.split("."), cast(Any, gateway).jvm)
    return known[name]


def _active_context() -> SparkContext:
    from pyspark import SparkContext

    # None without a context. Callers have one.
    return cast("SparkContext", SparkContext._active_spark_context)


def gateway(spark: Session) -> JavaObject:
    """Return the py4j gateway of a classic session, or of what `started_jvm` returns."""
    return getattr(spark, "sparkContext", cast(Any, spark))._gateway


def is_context_stopped(context: SparkContext) -> bool:
    """Return whether Python has stopped a SparkContext, by PySpark's own criterion."""
    return context._jsc is None


def is_stopped(spark: Session) -> bool:
    """Return whether the context of a classic session was stopped, by Python or in the JVM."""
    context = spark.sparkContext
    return is_context_stopped(context) or bool(context._jsc.sc().isStopped())


def is_active_context_stopped() -> bool:
    """Return whether this process has no running context."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return context is None or context._jsc is None or bool(context._jsc.sc().isStopped())


def is_jvm_started() -> bool:
    """Return whether this process has started a JVM, with or without a context."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def has_active_context() -> bool:
    """Return whether this process has a SparkContext."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def started_jvm() -> JavaObject:
    """Return the JVM that this process has started, in a form for `jvm_of`."""
    from pyspark import SparkContext

    return SparkContext


def any_session() -> Session | None:
    """Return the session of this thread, else another one of this process. None without any."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def active_session() -> Session | None:
    """Return the session that PySpark treats as the active one of this process."""
    from pyspark.sql import SparkSession

    return SparkSession._activeSession


def set_active_session(spark: Session | None) -> None:
    """Reset PySpark's active session after a call of `setActiveSession` in the JVM."""
    from pyspark.sql import SparkSession

    SparkSession._activeSession = spark


def session_from(java: JavaObject) -> Session:
    """Return PySpark's object for a session of the JVM."""
    from pyspark.sql import SparkSession

    return SparkSession(_active_context(), java)


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
    """Caches values by session and key, for each context those used last.

    A value must not refer to a Python session or context, because that would keep it alive.
    """

    def __init__(self, most: int) -> None:
        """Make a cache of at most `most` values per context."""
        self._most = most
        self._lock = threading.Lock()
        self._by_context: weakref.WeakKeyDictionary[SparkContext, OrderedDict[Hashable, Value]] = (
            weakref.WeakKeyDictionary()
        )

    def get(self, spark: Session, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the cached value of a classic session and key. Call `make` if there is none.

        Two threads may both call `make` at once. Both get the same value.
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
        """Drop all values."""
        with self._lock:
            self._by_context.clear()

    def __len__(self) -> int:
        with self._lock:
            self._forget_stopped()
            return sum(map(len, self._by_context.values()))

    def _of(self, context: SparkContext) -> OrderedDict[Hashable, Value]:
        self._forget_stopped()
        return self._by_context.setdefault(context, OrderedDict())

    def _forget_stopped(self) -> None:
        for context in [each for each in self._by_context if is_context_stopped(each)]:
            del self._by_context[context]
