"""Run statements under ANSI rules, in a copy of the session if its settings differ.

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
    java_class,
    java_rows,
    java_session,
    session_from,
    set_active_session,
)

ANSI = "spark.sql.ansi.enabled"

_POLICY = "spark.sql.storeAssignmentPolicy"
_LENIENT = "sql:without-ansi"


def is_ansi(spark: Session) -> bool:
    """Return whether a session's own settings agree with SQL-1 and SQL-3."""
    conf = spark.conf
    asks = folded(str(conf.get(ANSI, "true"))) == "true"
    return asks and folded(str(conf.get(_POLICY, "ANSI"))) == "ansi"


def lenient(what: str) -> UnsupportedFeatureError:
    """Return the error for a session with settings that cannot be overridden."""
    return UnsupportedFeatureError(
        f"{what} would follow this session's settings, which return NULL or a wrong number instead "
        f"of an error; set {ANSI} to true and {_POLICY} to ANSI",
        [_LENIENT],
    )


@contextmanager
def under_ansi(spark: Session, *, plain: bool = False) -> Iterator[Session]:
    """Yield the session, or a copy with ANSI settings that is the active session meanwhile.

    SQL text and Columns take the settings of the active session, and keep them.

    Args:
        spark: the session.
        plain: True if the statement means the same under any settings.

    Raises:
        UnsupportedFeatureError: a Spark Connect session with other settings.
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
    """Return a copy of a classic session with ANSI settings."""
    ansi = java_classes.new_instance(spark, "Ansi", java_session(spark))
    return wrapped(ansi.session(java_session(spark)))


def wrapped(session: JavaObject) -> Session:
    """Return PySpark's object for a session of the JVM."""
    return session_from(session)


@contextmanager
def _active(spark: Session) -> Iterator[Session]:
    sessions = java_class("org.apache.spark.sql.classic.SparkSession")
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
    """Return a DataFrame as a query of another session, which evaluates further expressions."""
    if frame.sparkSession is spark or not has_rows(frame):
        return frame
    ansi = java_classes.new_instance(spark, "Ansi", java_session(spark))
    return frame_from(ansi.moved(java_rows(frame), java_session(spark)), spark)
