"""Which backend a session has for a store: the one place that decides, and the setting for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, get_args

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.model.name_matching import folded
from tablefmt.spark.backends.arrow.arrow_backend import ArrowBackend
from tablefmt.spark.backends.backend_protocol import Backend
from tablefmt.spark.backends.native import s3a
from tablefmt.spark.backends.native.native_backend import NativeBackend
from tablefmt.spark.backends.python_workers import check_workers
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import Session, has_jvm
from tablefmt.store.object_store import Store

SETTING = "spark.tablefmt.backend"
"""A session's setting of who reads and writes data files: native, arrow or auto (the default)."""

Name = Literal["native", "arrow"]
"""native: Spark itself, in its own Parquet code. arrow: Arrow in Spark's Python workers."""

NO_JARS = (
    "this Spark session lacks the classes of Hadoop's S3A and its committers; stop it and make one "
    "with tablefmt.spark.session(s3=True)"
)

_log = logging.getLogger("tablefmt.spark")


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend by name, and why."""

    name: Name
    reason: str
    lacking: bool = False
    """True if something is missing that could be had."""


def backend_for(spark: Session, store: Store) -> Backend:
    """The backend for a table. A choice of arrow is logged: WARNING if something is missing for
    native, else INFO.

    Raises:
        UnsupportedFeatureError: memory://, which neither can reach; `SETTING` asks for native, and
            that cannot be; arrow, and Spark's workers lack tablefmt.
        InvalidArgumentError: `SETTING` asks for something else.
    """
    check_shared(store)
    choice = choose(spark, store)
    if choice.name == "native":
        return NativeBackend(spark, store, lambda: _arrow(spark, store))
    level = logging.WARNING if choice.lacking else logging.INFO
    _log.log(level, "%s goes through Arrow, not Spark's own files: %s", store.uri, choice.reason)
    return _arrow(spark, store)


def _arrow(spark: Session, store: Store) -> Backend:
    check_workers(spark)
    return ArrowBackend(spark, store)


def choose(spark: Session, store: Store) -> Choice:
    """The same by name, without a word. Raises as `backend_for`, but for memory://."""
    asked = asked_for(spark)
    if asked == "arrow":
        return Choice("arrow", f"{SETTING} says so")
    choice = for_session(spark) or _for_store(spark, store)
    if asked == "native":
        _check_native(choice)
    return choice


def spark_reads_files(spark: Session, store: Store) -> bool:
    """Whether Spark itself reads and writes the files. Logs, and raises, as `backend_for`."""
    return isinstance(backend_for(spark, store), NativeBackend)


def for_session(spark: Session) -> Choice | None:
    """What a session has whatever the store is; None: it goes by the store."""
    if not has_jvm(spark):
        return Choice("arrow", "a Spark Connect session has no JVM at hand")
    missing = java_classes.problem(spark)
    return Choice("arrow", missing) if missing else None


def fallback(reason: str) -> Choice:
    """What there is where Spark itself cannot, for a reason that is no session's own."""
    return Choice("arrow", reason, lacking=True)


def asked_for(spark: Session) -> Name | None:
    """What the session's `SETTING` says; None: auto.

    Raises:
        InvalidArgumentError: nothing that there is.
    """
    given = folded(str(spark.conf.get(SETTING, "auto")))
    names: tuple[Name, ...] = get_args(Name)
    for name in names:
        if given == name:
            return name
    if given != "auto":
        raise InvalidArgumentError(f"{SETTING} is {given!r:.100}; it is native, arrow or auto")
    return None


def check_asked(spark: Session, choice: Choice) -> None:
    """Refuse a choice that is not what the session's setting asks for. Raises as `backend_for`."""
    if asked_for(spark) == "native":
        _check_native(choice)


def _check_native(choice: Choice) -> None:
    if choice.name != "native":
        raise UnsupportedFeatureError(
            f"{SETTING} is native, and that cannot be: {choice.reason}. Set it to auto or arrow",
            ["spark:native"],
        )


def _for_store(spark: Session, store: Store) -> Choice:
    scheme = store.identity.partition(":")[0]
    if scheme == "file":
        return Choice("native", "Hadoop opens local paths")
    if scheme != "s3":
        return Choice("arrow", f"Hadoop has no file system for {scheme}://")
    problem = s3a.why_not(store)
    if problem:
        return fallback(problem)
    if not s3a.has_s3a(spark):
        return fallback(NO_JARS)
    return Choice("native", "Hadoop opens the bucket with S3A")


def check_shared(store: Store) -> None:
    """Make sure that other processes see the same store.

    Raises:
        UnsupportedFeatureError: memory://, which every process has for itself.
    """
    if store.identity.startswith("memory:"):
        raise UnsupportedFeatureError(
            "a table at memory:// exists in one process alone, and Spark's workers are others; "
            "use a local path or s3://, or read and write through Arrow with tablefmt.open()",
            ["spark:memory"],
        )
