"""The Java classes of the native plane: compiled once in the driver's JVM, then found there.

Spark ships the Janino compiler, so no jar has to be installed. The compiled classes are kept in a
system property of the JVM under the digest of their source: several Python sessions that share a
JVM share them, and two releases of this package do not meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from tablefmt.errors import UnsupportedFeatureError

SOURCES = ("SnapshotFileIndex",)
"""Classes of the package `tablefmt`, each in the .java file of its name beside this module."""


@lru_cache(maxsize=1)
def _sources() -> tuple[tuple[str, str], ...]:
    folder = resources.files("tablefmt.spark")
    return tuple((name, (folder / f"{name}.java").read_text("utf-8")) for name in SOURCES)


def new_instance(spark: Any, name: str, *arguments: Any) -> Any:
    """A new object of one of `SOURCES`, made by its only public constructor.

    Raises:
        UnsupportedFeatureError: this Spark's JVM cannot compile or load the class.
    """
    jvm = spark._jvm
    array = gateway(spark).new_array(jvm.java.lang.Object, len(arguments))
    for at, argument in enumerate(arguments):
        array[at] = argument
    return _loaded(jvm, name).getConstructors()[0].newInstance(array)


def _loaded(jvm: Any, name: str) -> Any:
    text = dict(_sources())[name]
    key = f"tablefmt.{name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    kept = jvm.java.lang.System.getProperties()
    found = kept.get(key)
    if found is None:
        found = _compiled(jvm, name, text)
        kept.put(key, found)
    return found


def _compiled(jvm: Any, name: str, text: str) -> Any:
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(
            jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        )
        compiler.cook(text)
        return compiler.getClassLoader().loadClass(f"tablefmt.{name}")
    except (Py4JError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise UnsupportedFeatureError(
            f"this Spark cannot compile {name}.java ({first}); tablefmt needs Spark 4.1 or later",
            ["spark:janino"],
        ) from None


class Callback:
    """A Python function as a `java.util.function.Function`. It may be called on any JVM thread."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def apply(self, argument: Any) -> Any:
        """The one method of the interface."""
        return self._function(argument)

    class Java:
        """What py4j wants to know."""

        implements = ("java.util.function.Function",)


def callback(spark: Any, function: Callable[[Any], Any]) -> Callback:
    """`function` for the JVM. bytes become byte[], str String, None null."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway(spark))
    return Callback(function)


def gateway(spark: Any) -> Any:
    """The py4j gateway of a classic session."""
    return spark.sparkContext._gateway


def scala_object(jvm: Any, path: str) -> Any:
    """The singleton of a Scala object such as `scala.None`."""
    node = jvm
    *outer, last = path.split(".")
    for part in outer:
        node = getattr(node, part)
    return getattr(getattr(node, last + "$"), "MODULE$")


def scala_map(spark: Any, values: dict[str, str]) -> Any:
    """An immutable Scala Map of text to text."""
    return spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(values)


def java_schema(spark: Any, json: str) -> Any:
    """A JVM StructType from Spark's JSON form of it."""
    return spark._jvm.org.apache.spark.sql.types.DataType.fromJson(json)


def string_array(spark: Any, values: Sequence[str]) -> Any:
    """A String[]."""
    array = gateway(spark).new_array(spark._jvm.java.lang.String, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
