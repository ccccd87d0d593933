"""Choose the execution backend for a session and a store, from the session's setting."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, get_args

from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.model.name_matching import folded
from tablefmt.spark.backends.arrow.arrow_backend import ArrowBackend
from tablefmt.spark.backends.backend_protocol import Backend
from tablefmt.spark.backends.native import azure_connector, gcs_connector, s3a
from tablefmt.spark.backends.native.native_backend import NativeBackend
from tablefmt.spark.backends.python_workers import check_workers
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import Session, has_jvm
from tablefmt.store.object_store import Store

SETTING = "spark.tablefmt.backend"
"""Session setting that selects the execution backend: native, arrow or auto (the default)."""

Name = Literal["native", "arrow"]
"""native: Spark's own Parquet reader and writer. arrow: Arrow in Spark's Python workers."""

NO_JARS = (
    "this Spark session lacks the classes of Hadoop's S3A and its committers; stop it and start "
    "one with tablefmt.spark.session(s3=True)"
)

_log = logging.getLogger("tablefmt.spark")
_SAID: set[tuple[str, Choice]] = set()
"""Tables and reasons that were logged. A few hundred bytes for each table."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of a backend, and the reason for it."""

    name: Name
    reason: str
    lacking: bool = False
    """True if the native backend only lacks something that can be installed."""


def backend_for(spark: Session, store: Store) -> Backend:
    """Return the backend for a table.

    Logs once for a table if the backend is arrow: as WARNING if native lacks something, else as
    INFO.

    Raises:
        UnsupportedFeatureError: memory://, which no backend can reach; `SETTING` is native, but
            native is not possible; or the backend is arrow, and Spark's workers lack tablefmt.
        InvalidArgumentError: `SETTING` has an unknown value.
    """
    check_shared(store)
    choice = choose(spark, store)
    if choice.name == "native":
        return NativeBackend(spark, store, lambda: arrow_backend(spark, store))
    level = logging.WARNING if choice.lacking else logging.INFO
    if (store.uri, choice) not in _SAID:
        _SAID.add((store.uri, choice))
        _log.log(
            level, "%s goes through Arrow, not Spark's own files: %s", store.uri, choice.reason
        )
    return arrow_backend(spark, store)


def arrow_backend(spark: Session, store: Store) -> Backend:
    """Return the Arrow backend, whatever the session's setting is.

    Raises:
        UnsupportedFeatureError: Spark's workers lack tablefmt.
    """
    check_workers(spark)
    return ArrowBackend(spark, store)


def choose(spark: Session, store: Store) -> Choice:
    """Choose as `backend_for`, without logging. Raises as `backend_for`, but not for memory://."""
    asked = asked_for(spark)
    if asked == "arrow":
        return Choice("arrow", f"{SETTING} is arrow")
    choice = for_session(spark) or _for_store(spark, store)
    if store.traits.imports:
        choice = Choice("arrow", "the table has imported files (IMP-4)")
    if asked == "native":
        _check_native(choice)
    return choice


def spark_reads_files(spark: Session, store: Store) -> bool:
    """Return whether Spark reads and writes the data files. Logs and raises as `backend_for`."""
    return isinstance(backend_for(spark, store), NativeBackend)


def for_session(spark: Session) -> Choice | None:
    """Return the choice that the session alone determines. None: it depends on the store."""
    if not has_jvm(spark):
        return Choice("arrow", "a Spark Connect session has no JVM in this process")
    missing = java_classes.problem(spark)
    return Choice("arrow", missing) if missing else None


def fallback(reason: str) -> Choice:
    """Return the choice of arrow because native lacks something that can be installed."""
    return Choice("arrow", reason, lacking=True)


def asked_for(spark: Session) -> Name | None:
    """Return the session's `SETTING`. None for auto.

    Raises:
        InvalidArgumentError: an unknown value.
    """
    given = folded(str(spark.conf.get(SETTING, "auto")))
    names: tuple[Name, ...] = get_args(Name)
    for name in names:
        if given == name:
            return name
    if given != "auto":
        raise InvalidArgumentError(f"{SETTING} is {given!r:.100}; expected native, arrow or auto")
    return None


def check_asked(spark: Session, choice: Choice) -> None:
    """Check that a choice agrees with the session's setting. Raises as `backend_for`."""
    if asked_for(spark) == "native":
        _check_native(choice)


def _check_native(choice: Choice) -> None:
    if choice.name != "native":
        raise UnsupportedFeatureError(
            f"{SETTING} is native, but that is not possible: {choice.reason}. Set it to auto or "
            "arrow",
            ["spark:native"],
        )


def _for_store(spark: Session, store: Store) -> Choice:
    traits = store.traits
    if traits.on_disk:
        return Choice("native", "Hadoop opens local paths")
    if traits.scheme == "gs":
        settings = gcs_connector.gcs_settings(store)
        if isinstance(settings, str):
            return fallback(settings)
        if not gcs_connector.has_connector(spark):
            return fallback(gcs_connector.NO_JAR)
        return Choice("native", "Hadoop opens the bucket with Google's connector")
    if traits.scheme == "az":
        place = azure_connector.azure_place(spark, store)
        if isinstance(place, str):
            return fallback(place)
        return Choice("native", "Hadoop opens the container with its connector of Azure")
    if traits.scheme != "s3":
        return Choice("arrow", f"Hadoop has no file system for {traits.scheme}://")
    problem = s3a.why_not(store)
    if problem:
        return fallback(problem)
    if not s3a.has_s3a(spark):
        return fallback(NO_JARS)
    return Choice("native", "Hadoop opens the bucket with S3A")


def check_shared(store: Store) -> None:
    """Check that other processes can reach the store.

    Raises:
        UnsupportedFeatureError: memory://, which exists in one process only.
    """
    if not store.traits.shared:
        raise UnsupportedFeatureError(
            "a table at memory:// exists in one process only, and Spark's workers are other "
            "processes; use a local path or s3://, or read and write with tablefmt.open()",
            ["spark:memory"],
        )
