"""Names of classes and packages in the JVM: each is looked up once.

PySpark asks the JVM at each use of `jvm.org.apache.spark.SomeClass`. For each part of the name, the
JVM then searches all 300 jars of Spark. That took 4 % of the processor time of its driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView

Lookup = Callable[[Any, str], Any]


def remember() -> None:
    """Keep the classes and packages that py4j finds, for each connection to a JVM."""
    for kind, prefix in ((JVMView, "_id"), (JavaPackage, "_fqn")):
        kind.__getattr__ = _remembering(kind.__getattr__, prefix)


def _remembering(look_up: Lookup, prefix: str) -> Lookup:
    def remembered(view: Any, name: str) -> Any:
        if name.startswith("_"):
            return look_up(view, name)
        known = view._gateway_client.__dict__.setdefault("tablefmt_names", {})
        key = (getattr(view, prefix), name)
        if key not in known:
            found = look_up(view, name)
            # A class that is missing looks like a package, and may be there later.
            if not isinstance(found, JavaClass) and not name.islower():
                return found
            known[key] = found
        return known[key]

    return remembered
