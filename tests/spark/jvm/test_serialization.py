"""Objects sent to executors, which have none of the classes that the driver compiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.native import native_relation
from tablefmt.spark.jvm import java_classes

HOOKS = frozenset(
    {
        "readObject",
        "readObjectNoData",
        "readResolve",
        "writeObject",
        "writeReplace",
    }
)
"""Methods of a class that Java's serialization calls by their names."""


def test_no_source_has_a_private_method_that_serialization_calls() -> None:
    """Janino makes it `static writeReplace$(…)` in a nested class, and Java does not call that."""
    private = re.compile(rf"private\b[^;{{}}()=\n]*\b({'|'.join(sorted(HOOKS))})\s*\(")
    found = {name: private.findall(text) for name, text in java_classes._sources().items()}
    assert {name: hooks for name, hooks in found.items() if hooks} == {}


def test_compiled_classes_have_their_serialization_methods_as_java_looks_for_them(
    spark: Any,
) -> None:
    """The class files show the output of Janino."""
    (folder,) = java_classes._folders
    files = sorted(Path(folder, "tablefmt").glob("*.class"))
    names = [f"tablefmt.{file.stem}" for file in files]
    assert set(java_classes.SOURCES) <= {file.stem for file in files}
    classes = [java_classes._loader(spark).loadClass(name) for name in names]
    modifier = spark._jvm.java.lang.reflect.Modifier
    found = {
        (each.getName(), method.getName()): bool(modifier.isStatic(method.getModifiers()))
        for each in classes
        for method in each.getDeclaredMethods()
        if method.getName().rstrip("$") in HOOKS
    }
    assert found == {
        ("tablefmt.DirectFiles", "writeReplace"): False,
        ("tablefmt.SparkExpressions$Constant", "writeReplace"): False,
    }


def test_tasks_get_the_commit_protocol_of_spark(spark: Any) -> None:
    """Decision 0061: no class of ours is sent with a write that renames nothing."""
    protocol = java_classes.new_instance(spark, "DirectFiles", "job", "/folder")
    sent = bytes(spark._jvm.org.apache.spark.util.Utils.serialize(protocol))
    assert b"org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol" in sent
    assert re.findall(rb"\btablefmt\.\w+", sent) == []


def condition_of(frame: Any) -> Any:
    """Return the condition of the only filter in a physical plan."""
    plan = frame._jdf.queryExecution().sparkPlan()
    while plan.getClass().getSimpleName() != "FilterExec":
        plan = plan.children().head()
    return plan.condition()


@pytest.mark.parametrize(
    "task_bytes", [native_relation.DELETED_TASK_BYTES, 0], ids=["task", "broadcast"]
)
def test_the_condition_of_deleted_rows_is_sent_as_classes_of_spark(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch, task_bytes: int
) -> None:
    monkeypatch.setattr(native_relation, "DELETED_TASK_BYTES", task_bytes)
    tablefmt.spark.write(spark.range(100).coalesce(1), uri)
    tablefmt.open(uri).delete("id % 7 = 3")
    frame = tablefmt.spark.read(spark, uri)
    condition = condition_of(frame)
    serializer = spark._jvm.org.apache.spark.util.Utils
    sent = bytes(serializer.serialize(condition))
    assert b"org.apache.spark.sql.catalyst.expressions.GetArrayItem" in sent
    # A class is named by its length and its name; columns of ours are called `__tablefmt_…`.
    assert re.findall(rb"\btablefmt\.\w+", sent) == []
    assert sorted(row.id for row in frame.collect()) == [n for n in range(100) if n % 7 != 3]
