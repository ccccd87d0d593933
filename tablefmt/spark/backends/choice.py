"""Who reads and writes a table's data files: Spark itself, or Arrow in Spark's Python workers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.native import s3
from tablefmt.spark.jvm import loader
from tablefmt.store.protocol import Store

NO_JARS = (
    "this Spark session lacks the classes of Hadoop's S3A and its committers; stop it and make one "
    "with tablefmt.spark.session(s3=True)"
)

_log = logging.getLogger("tablefmt.spark")


@dataclass(frozen=True, slots=True)
class Plane:
    """The choice, and why."""

    kind: Literal["native", "arrow"]
    reason: str
    lacking: bool = False
    """True if something is missing that could be had."""


def plane_for(spark: Any, store: Store) -> Plane:
    """Choose, and log a choice of Arrow: WARNING if something is missing for native, else INFO.

    Raises:
        UnsupportedFeatureError: memory://, which neither can reach.
    """
    check_shared(store)
    plane = choose(spark, store)
    if plane.kind == "arrow":
        level = logging.WARNING if plane.lacking else logging.INFO
        _log.log(level, "%s goes through Arrow, not Spark's own files: %s", store.uri, plane.reason)
    return plane


def choose(spark: Any, store: Store) -> Plane:
    """The same without a word."""
    if getattr(spark, "_jsparkSession", None) is None:
        return Plane("arrow", "a Spark Connect session has no JVM at hand")
    kind = store.identity.partition(":")[0]
    if kind not in ("file", "s3"):
        return Plane("arrow", f"Hadoop has no file system for {kind}://")
    missing = loader.problem(spark)
    if missing:
        return Plane("arrow", missing)
    if kind == "file":
        return Plane("native", "Hadoop opens local paths")
    problem = s3.why_not(store)
    if problem:
        return Plane("arrow", problem, lacking=True)
    if not s3.has_s3a(spark):
        return Plane("arrow", NO_JARS, lacking=True)
    return Plane("native", "Hadoop opens the bucket with S3A")


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
