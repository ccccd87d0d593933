"""A Spark session that is set up right, and the check that a given one can be used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Any

from tablefmt.errors import UnsupportedFeatureError

JAVA_MIN = 17

_VERSION = re.compile(r'version "(\d+)')

DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What `session` sets unless told otherwise."""


def session(
    app_name: str = "tablefmt", *, master: str = "local[*]", s3: bool = False, **conf: Any
) -> Any:
    """A classic SparkSession, made or found; optional: any classic session will do.

    Args:
        app_name: shown by Spark.
        master: Spark's master.
        s3: not supported yet.
        conf: `**{"spark.x": …}`, on top of `DEFAULTS`.

    Raises:
        UnsupportedFeatureError: Java is missing or older than 17, PySpark is not installed, or s3.
    """
    if s3:
        raise UnsupportedFeatureError(
            "tables on S3 cannot be opened from Spark yet; leave s3=False", ["spark:s3"]
        )
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnsupportedFeatureError(
            "PySpark is not installed; pip install 'tablefmt[spark]'", ["spark"]
        ) from None
    if master.startswith("local"):
        # Python workers have to be this Python: the one on the PATH may lack what ours has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**DEFAULTS, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_java() -> None:
    """Make sure that Spark's Java can be started: a missing one has a poor message of its own.

    Raises:
        UnsupportedFeatureError: there is no Java, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    try:
        answer = subprocess.run(
            [command or "java", "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        place = f"at JAVA_HOME={home}" if home else "on the PATH"
        raise UnsupportedFeatureError(
            f"Spark needs Java {JAVA_MIN} or later, and there is none {place}; install one, or "
            "set JAVA_HOME",
            ["java"],
        ) from None
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is not None and int(found[1]) < JAVA_MIN:
        raise UnsupportedFeatureError(
            f"Spark needs Java {JAVA_MIN} or later, and this is Java {found[1]}; set JAVA_HOME to "
            "a newer one",
            ["java"],
        )


def check_classic(spark: Any) -> None:
    """Refuse a session that has no JVM at hand.

    Raises:
        UnsupportedFeatureError: a Spark Connect session, or no session at all.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedFeatureError(
            "a Spark Connect session cannot be used yet; use a classic session, or read and write "
            "through Arrow with tablefmt.open()",
            ["spark:connect"],
        )
    if getattr(spark, "_jsparkSession", None) is None:
        raise UnsupportedFeatureError(
            f"{type(spark).__name__} is no Spark session with a JVM at hand; use a classic session",
            ["spark:classic"],
        )
