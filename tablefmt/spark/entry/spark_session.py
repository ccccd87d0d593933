"""A Spark session that is set up right, and the check that a given one can be used."""

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

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark import pyspark_objects
from tablefmt.spark.jvm import spark_internals
from tablefmt.spark.pyspark_objects import Session, has_jvm
from tablefmt.spark.runtime import failures
from tablefmt.store.private_folders import PrivateFolder

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
"""What `session` sets unless told otherwise."""

OPEN_COST = "256kb"
"""What opening a file counts as when Spark deals files out to the tasks of a local session. Its own
4 MB are those of a file system far away: with them small files weigh as much as large ones, and one
core reads nearly all of a table that was changed often.
"""


def session(
    app_name: str = "tablefmt",
    *,
    master: str = "local[*]",
    s3: bool | str | os.PathLike[str] = False,
    **conf: str | bool | float,
) -> Session:
    """A classic SparkSession, made or found; optional: any classic session will do.

    Args:
        app_name: shown by Spark.
        master: Spark's master.
        s3: True adds the jars that Spark needs for s3:// (12 MB, brought from Maven Central the
            first time; TABLEFMT_MAVEN names another repository); or a folder that has them.
        conf: `**{"spark.x": …}`, on top of `DEFAULTS`, and of memory and OPEN_COST where Spark
            is local. `spark.tablefmt.backend` says who reads and writes data files: native (Spark
            itself), arrow (Arrow in Spark's Python workers), or auto, the default: native where it
            can be. It may be set and changed in any session, Connect ones too.

    Raises:
        UnsupportedFeatureError: Java is missing or older than 17, PySpark is missing or older than
            4.1, the jars cannot be had, or a session without them is running.
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
        # Python workers have to be this Python: the one on the PATH may lack what ours has.
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
    """Have a JVM that starts now keep blocks and shuffles where only this user can look (SEC-3).

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
    """Memory of a local driver: a quarter of the machine's, from 1 to 8 GiB. Pure."""
    return min(8192, max(1024, machine_bytes // 4 >> 20))


def _machine_bytes() -> int:
    """What this process may use, as far as that can be found out."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        return installed
    return min(installed, int(limit)) if limit.isdigit() else installed


def _jars(folder: str | None) -> list[str]:
    # A session without S3 has no use for it.
    from tablefmt.spark.backends.native.hadoop_aws_jars import s3_jars

    return [str(path) for path in s3_jars(folder)]


def _add_to_running(jars: list[str]) -> None:
    """Jars are read when a JVM starts; one that runs with no session in it can still take them."""
    from tablefmt.spark.backends.native.s3a import has_s3a

    running = pyspark_objects.started_jvm()
    if not jars or has_s3a(running):
        return
    if pyspark_objects.has_active_context():
        raise UnsupportedFeatureError(
            "the running Spark session was made without the jars for S3; stop it first "
            "(spark.stop()), then make one with s3=True",
            ["spark:s3-jars"],
        )
    jvm = pyspark_objects.jvm_of(running)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())


def check_pyspark() -> None:
    """Make sure that PySpark is there and new enough.

    Raises:
        UnsupportedFeatureError: PySpark is not installed, or older than 4.1.
    """
    try:
        import pyspark
    except ImportError:
        raise UnsupportedFeatureError(
            "PySpark is not installed; pip install 'tablefmt[spark]'", ["spark"]
        ) from None
    version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < PYSPARK_MIN:
        raise UnsupportedFeatureError(
            f"this is PySpark {pyspark.__version__}, and 4.1 or later is needed; "
            "pip install 'tablefmt[spark]'",
            ["spark"],
        )


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
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is not None and int(version[1]) < JAVA_MIN:
        raise UnsupportedFeatureError(
            f"Spark needs Java {JAVA_MIN} or later, and this is Java {version[1]}; set JAVA_HOME "
            "to a newer one",
            ["java"],
        )


def is_connect(spark: Session) -> bool:
    """Whether this is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: Session) -> bool:
    """Whether a session, classic or Connect, was stopped."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return pyspark_objects.is_stopped(spark)


def check_classic(spark: Session) -> None:
    """Refuse a session that has no JVM at hand.

    Raises:
        UnsupportedFeatureError: a Spark Connect session, or no session at all.
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "this needs a session with a JVM at hand, and Spark Connect has none; use paths and "
            "temporary views there, or tablefmt.spark.read() and write()",
            ["spark:connect"],
        )
    if not has_jvm(spark):
        raise UnsupportedFeatureError(
            f"{type(spark).__name__} is no Spark session with a JVM at hand; use a classic session",
            ["spark:classic"],
        )
