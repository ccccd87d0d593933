"""Options of the JVM in a test. It lives for seconds.

One that compiles quickly and has one collector needs half the time of one that is made for days,
and one that maps the classes that others have loaded, two thirds of that.
"""

from __future__ import annotations

import sys
from pathlib import Path

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
    "-XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xmn300m"
)
"""With one compiler, the JVM reserves 48 MB for code. Spark's tests need more, and the JVM would
drop methods and compile them again. It would collect everything as classes are loaded, too."""
ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""`.ci/recipes classes` makes it, by tests/spark/class_archive.py. It belongs to its environment:
where Java or the jars are others, no JVM takes it."""


def options() -> str:
    """Return them as SPARK_SUBMIT_OPTS and spark.executor.extraJavaOptions take them."""
    # If the file were missing, the JVM would not use its own archive either.
    return f"{QUICK} -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK


def executor_logs(application: str) -> Path:
    """Return the folder that the executors of a `local-cluster` application print into."""
    # A test without Spark has no use for it.
    import pyspark

    return Path(pyspark.__file__).parent / "work" / application
