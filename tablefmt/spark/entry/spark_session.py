"""Make a configured Spark session, and check that a given session can be used."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark import pyspark_objects
from tablefmt.spark.jvm import spark_internals
from tablefmt.spark.pyspark_objects import Session, has_jvm
from tablefmt.spark.runtime import failures
from tablefmt.store.local_folders import PrivateFolder

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

JAVA_MIN = 17
PYSPARK_MIN = spark_internals.MINORS[0]

_VARIABLE = "SPARK_LOCAL_DIRS"

_VERSION = re.compile(r'version "(\d+)')

DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings that `session` makes unless the caller gives others."""

OPEN_COST = "256kb"
"""Cost of opening a file when Spark distributes files over the tasks of a local session.

Spark's own 4 MB suit a remote file system. With 4 MB, small files weigh as much as large ones, and
one core reads nearly all of a table with many small files.
"""


def session(
    app_name: str = "tablefmt",
    *,
    master: str = "local[*]",
    s3: bool | str | os.PathLike[str] = False,
    **conf: str | bool | float,
) -> Session:
    """Return a classic SparkSession with suitable settings: the running one, or a new one.

    Calling this is optional: any classic session works.

    Args:
        app_name: the application name that Spark shows.
        master: Spark's master.
        s3: True adds the jars that Spark needs for s3://: 12 MB, downloaded from Maven Central the
            first time (TABLEFMT_MAVEN names another repository). A path names a folder of jars.
        conf: `**{"spark.x": …}`, added to `DEFAULTS`. A local session also gets a driver memory
            and `OPEN_COST`. `spark.tablefmt.backend` selects the execution backend: native (Spark
            reads and writes data files), arrow (Arrow in Spark's Python workers), or auto, the
            default: native where possible. Any session may set it at any time, also with Connect.

    Raises:
        UnsupportedFeatureError: Java is missing or older than 17, PySpark is missing or older than
            4.1, the jars cannot be downloaded, or a session without them is running.
    """
    check_java()
    check_pyspark()
    from pyspark.sql import SparkSession

    failures.install()
    settings = {**DEFAULTS, **conf}
    jars: list[str] = []
    if s3:
        jars = _jars(None if s3 is True else os.fspath(s3))
        given = str(conf.get("spark.jars", ""))
        settings["spark.jars"] = ",".join(filter(None, [given, *jars]))
    if master.startswith("local"):
        # Python workers must run this interpreter: the one on the PATH may lack our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if "SPARK_DRIVER_MEMORY" not in os.environ:
            settings.setdefault("spark.driver.memory", f"{driver_megabytes(_machine_bytes())}m")
        settings.setdefault("spark.sql.files.openCostInBytes", OPEN_COST)
    if pyspark_objects.is_jvm_started():
        _add_to_running(jars)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if not master.startswith("local") or "spark.local.dir" in conf:
        return builder.getOrCreate()
    with _private_local_dirs():
        return builder.getOrCreate()


_local_dirs: list[PrivateFolder] = []


@contextmanager
def _private_local_dirs() -> Iterator[None]:
    """Make a JVM that starts now keep blocks and shuffles in a folder of this user alone (SEC-3).

    Spark itself makes them readable for every user of the machine.
    """
    if _VARIABLE in os.environ:
        yield
        return
    if not _local_dirs:
        _local_dirs.append(PrivateFolder("tablefmt-spark-"))
        atexit.register(_local_dirs[0].remove)
    os.environ[_VARIABLE] = _local_dirs[0].path
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def driver_megabytes(machine_bytes: int) -> int:
    """Return the memory of a local driver: a quarter of the machine's, from 1 to 8 GiB. Pure."""
    return min(8192, max(1024, machine_bytes // 4 >> 20))


def _machine_bytes() -> int:
    """Return the bytes of memory that this process may use, at most its cgroup's limit."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        return installed
    return min(installed, int(limit)) if limit.isdigit() else installed


def _jars(folder: str | None) -> list[str]:
    # Imported here: a session without S3 does not need it.
    from tablefmt.spark.backends.native.s3a import s3_jars

    return [str(path) for path in s3_jars(folder)]


def _add_to_running(jars: list[str]) -> None:
    """Add jars to a running JVM that has no session yet. Spark reads jars when the JVM starts."""
    from tablefmt.spark.backends.native.s3a import has_s3a

    running = pyspark_objects.started_jvm()
    if not jars or has_s3a(running):
        return
    if pyspark_objects.has_active_context():
        raise UnsupportedFeatureError(
            "the running Spark session was started without the jars for S3; stop it with "
            "spark.stop(), then start one with s3=True",
            ["spark:s3-jars"],
        )
    jvm = pyspark_objects.jvm_of(running)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())


def check_pyspark() -> None:
    """Check that a recent enough PySpark is installed.

    Raises:
        UnsupportedFeatureError: PySpark is not installed, or older than 4.1.
    """
    try:
        import pyspark
    except ImportError:
        raise UnsupportedFeatureError(
            "PySpark is not installed; run pip install 'tablefmt[spark]'", ["spark"]
        ) from None
    version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < PYSPARK_MIN:
        raise UnsupportedFeatureError(
            f"PySpark 4.1 or later is required, got {pyspark.__version__}; run "
            "pip install 'tablefmt[spark]'",
            ["spark"],
        )


def check_java() -> None:
    """Check that Spark can start Java. Spark's own error for a missing Java is hard to understand.

    Raises:
        UnsupportedFeatureError: Java is missing or older than 17.
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
            f"Spark needs Java {JAVA_MIN} or later, and none was found {place}; install Java, or "
            "set JAVA_HOME",
            ["java"],
        ) from None
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is not None and int(version[1]) < JAVA_MIN:
        raise UnsupportedFeatureError(
            f"Spark needs Java {JAVA_MIN} or later, got Java {version[1]}; set JAVA_HOME to a "
            "newer one",
            ["java"],
        )


def is_connect(spark: Session) -> bool:
    """Return whether this is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: Session) -> bool:
    """Return whether a session, classic or Connect, was stopped."""
    if is_connect(spark):
        return cast("ConnectSession", spark).is_stopped
    return pyspark_objects.is_stopped(spark)


def check_classic(spark: Session) -> None:
    """Check that a session has a JVM that this process can call.

    Raises:
        UnsupportedFeatureError: a Spark Connect session, or no session at all.
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "this needs a session with a JVM, and Spark Connect has none; use paths and temporary "
            "views there, or tablefmt.spark.read() and write()",
            ["spark:connect"],
        )
    if not has_jvm(spark):
        raise UnsupportedFeatureError(
            f"expected a classic Spark session with a JVM, got {type(spark).__name__}",
            ["spark:classic"],
        )
