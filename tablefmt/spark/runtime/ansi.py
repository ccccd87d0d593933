"""Statements run under ANSI, whatever the session says: in a copy of it where it says otherwise.

Spec: SQL-1, SQL-3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.jvm import loader
from tablefmt.spark.runtime.frames import DataFrame, JavaObject, Session

ANSI = "spark.sql.ansi.enabled"

_POLICY = "spark.sql.storeAssignmentPolicy"
_LENIENT = "sql:without-ansi"


def is_ansi(spark: Session) -> bool:
    """Whether what a session computes by itself is what SQL-1 and SQL-3 say."""
    conf = spark.conf
    asks = str(conf.get(ANSI, "true")).casefold() == "true"
    return asks and str(conf.get(_POLICY, "ANSI")).casefold() == "ansi"


def lenient(what: str) -> UnsupportedFeatureError:
    """What to say where the session's own settings cannot be set aside."""
    return UnsupportedFeatureError(
        f"{what} would be worked out by the rules of this session, under which what is an error "
        f"becomes NULL or another number; set {ANSI} to true and {_POLICY} to ANSI for it",
        [_LENIENT],
    )


@contextmanager
def under_ansi(spark: Session, *, plain: bool = False) -> Iterator[Session]:
    """The session, or a copy of it with those settings, which is the active one inside.

    Text and Columns take the settings of the active session, and keep them.

    Args:
        spark: the session.
        plain: what it is asked means the same under any settings.

    Raises:
        UnsupportedFeatureError: the session is one of Spark Connect, and has other settings.
    """
    if is_ansi(spark):
        yield spark
        return
    if getattr(spark, "_jsparkSession", None) is None or loader.problem(spark):
        if not plain:
            raise lenient("the statement")
        yield spark
        return
    with _active(copied(spark)) as copy:
        yield copy


def copied(spark: Session) -> Session:
    """A copy of a classic session with those settings."""
    ansi = loader.new_instance(spark, "Ansi", spark._jsparkSession)
    return wrapped(ansi.session(spark._jsparkSession))


def wrapped(session: JavaObject) -> Session:
    """A session of the JVM as PySpark has it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession(SparkContext._active_spark_context, session)


@contextmanager
def _active(spark: Session) -> Iterator[Session]:
    from pyspark.sql import SparkSession

    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    before, known = sessions.getActiveSession(), SparkSession._activeSession
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield spark
    finally:
        SparkSession._activeSession = known
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def moved(frame: DataFrame, spark: Session) -> DataFrame:
    """The rows of a DataFrame as a query of another session, which works out what comes on top."""
    from pyspark.sql import DataFrame

    if frame.sparkSession is spark or getattr(frame, "_jdf", None) is None:
        return frame
    ansi = loader.new_instance(spark, "Ansi", spark._jsparkSession)
    return DataFrame(ansi.moved(frame._jdf, spark._jsparkSession), spark)
