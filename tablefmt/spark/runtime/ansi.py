"""Statements run under ANSI, whatever the session says: in a copy of it where it says otherwise.

Spec: SQL-1, SQL-3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.name_matching import folded
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    JavaObject,
    Session,
    active_session,
    frame_from,
    has_jvm,
    has_rows,
    java_rows,
    java_session,
    jvm_of,
    session_from,
    set_active_session,
)

ANSI = "spark.sql.ansi.enabled"

_POLICY = "spark.sql.storeAssignmentPolicy"
_LENIENT = "sql:without-ansi"


def is_ansi(spark: Session) -> bool:
    """Whether what a session computes by itself is what SQL-1 and SQL-3 say."""
    conf = spark.conf
    asks = folded(str(conf.get(ANSI, "true"))) == "true"
    return asks and folded(str(conf.get(_POLICY, "ANSI"))) == "ansi"


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
    if not has_jvm(spark) or java_classes.problem(spark):
        if not plain:
            raise lenient("the statement")
        yield spark
        return
    with _active(copied(spark)) as copy:
        yield copy


def copied(spark: Session) -> Session:
    """A copy of a classic session with those settings."""
    ansi = java_classes.new_instance(spark, "Ansi", java_session(spark))
    return wrapped(ansi.session(java_session(spark)))


def wrapped(session: JavaObject) -> Session:
    """A session of the JVM as PySpark has it."""
    return session_from(session)


@contextmanager
def _active(spark: Session) -> Iterator[Session]:
    sessions = jvm_of(spark).org.apache.spark.sql.classic.SparkSession
    before, known = sessions.getActiveSession(), active_session()
    sessions.setActiveSession(java_session(spark))
    try:
        yield spark
    finally:
        set_active_session(known)
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def moved(frame: DataFrame, spark: Session) -> DataFrame:
    """The rows of a DataFrame as a query of another session, which works out what comes on top."""
    if frame.sparkSession is spark or not has_rows(frame):
        return frame
    ansi = java_classes.new_instance(spark, "Ansi", java_session(spark))
    return frame_from(ansi.moved(java_rows(frame), java_session(spark)), spark)
