"""The fence around Spark's internals: which source may use what, and the tested versions."""

from __future__ import annotations

import ast
import re
from importlib import import_module, util
from pathlib import Path

import pytest

from tablefmt.spark.jvm import java_classes, spark_internals
from tests.architecture.test_architecture import MODULES, package
from tests.places import ROOT

SOURCES = {
    name: re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for name, text in java_classes._sources().items()
}

SEAM = {
    # Internals, and the classes that may use them, the most fragile first.
    r"getDeclaredField|setAccessible": {"SparkFields"},
    r"getConstructors|productElement\w*\(": {"SparkNodes", "StatementParser"},
    r"getStackTrace|StackWalker": {"SparkCallers", "SnapshotRelation"},
    r"SQLConf\$": {"SparkSettings"},
    r"\bDataset\$|SparkSession\$|internalCreateDataFrame|cloneSession|\.queryExecution\(": {
        "SparkQueries",
        "NamedReads",
        "NativeWrite",
    },
    r"new (LogicalRelation|HadoopFsRelation)\(|DataSourceV2ScanRelation": {"SparkScans"},
    r"expressions\.(Bitwise|Shift|Known|Current|In\b|Is\w+|StringPredicate|EvalMode)": {
        "SparkExpressions",
        "LiteralsByReference",
    },
    r"\"org\.apache\.spark": {"SparkCallers", "RepeatableRows"},
}
"""Each kind of use has one home; a class more is a decision. Patterns are of code, not comments."""


@pytest.mark.parametrize("pattern", SEAM)
def test_a_kind_of_internals_has_its_own_classes(pattern: str) -> None:
    found = {name for name, text in SOURCES.items() if re.search(pattern, text)}
    assert found == SEAM[pattern]


def test_every_class_of_the_seam_says_what_it_relies_on_and_what_happens_without() -> None:
    texts = java_classes._sources()
    seam = [name for name in texts if name.startswith("Spark")]
    assert len(seam) == 8
    for name in seam:
        head = texts[name].partition("class ")[0]
        assert "Access to Spark's internals" in head or name == "SparkInternals", name


def test_the_table_names_what_its_users_use() -> None:
    """A name without a user would send sessions to Arrow for nothing."""
    unused = []
    for each in spark_internals.INTERNALS:
        if each.user in SOURCES:
            text = SOURCES[each.user]
        else:
            found = util.find_spec(each.user)
            assert found is not None, each.user
            text = Path(str(found.origin)).read_text("utf-8")
        short = each.name.rpartition(".")[2]
        used = any(re.search(rf"\b{re.escape(word)}", text) for word in (short, *each.members))
        # `startsWith("Current")` uses a class too.
        if not used and not any(short.startswith(q) for q in re.findall(r'"(\w{3,})"', text)):
            unused.append((each.user, each.name))
        assert each.without
    assert unused == []


def test_fields_and_callers_of_the_seam_are_in_the_table() -> None:
    """Text in code that names something of Spark's cannot be checked by the compiler."""
    listed = {
        m
        for each in spark_internals.INTERNALS
        for m in (each.name.rpartition(".")[2], *each.members)
    }
    fields = set(re.findall(r'(?:get|set|addRule)\([^;]*?"(\w+)"', SOURCES["SparkFields"]))
    fields |= set(re.findall(r'addRule\(\w+, "(\w+)"', SOURCES["RowCommands"]))
    callers = set(re.findall(r'"(\w+)"', SOURCES["SparkCallers"]))
    callers |= {
        c.rpartition(".")[2] for c in re.findall(r'"([\w.]+\.\w+)"', SOURCES["SparkCallers"])
    }
    assert fields >= {"postHocResolutionRules", "hintResolutionRules", "defaultSessionCatalog"}
    assert "writeToV1Table" in callers
    assert (fields | callers) - listed == set()


PRIVATE = re.compile(
    r"\b(_j[a-z]\w*|_gateway|_sc|_active_spark_context|_instantiatedSession|_activeSession|_origin)\b"
)
"""Parts that PySpark does not publish. In tablefmt.spark one module has them."""


def test_private_parts_of_pyspark_have_one_module() -> None:
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        source = path.read_text("utf-8")
        if package(name) != "spark" or name.endswith(".pyspark_objects"):
            continue
        # Few modules have such a word at all, and need to be parsed.
        for node in ast.walk(ast.parse(source if PRIVATE.search(source) else "")):
            used = node.attr if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used = node.value
            if PRIVATE.fullmatch(used):
                found.setdefault(name, set()).add(used)
    assert found == {}


def test_pyspark_is_bounded_by_the_versions_that_are_tested() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (major, first), (_, last) = spark_internals.MINORS[0], spark_internals.MINORS[-1]
    assert f'\nspark = ["pyspark>={major}.{first},<{major}.{last + 1}"]\n' in project
    assert [(major, minor) for minor in range(first, last + 1)] == list(spark_internals.MINORS)
    old_sparks = import_module("checks.old_sparks")
    assert old_sparks.MINORS == spark_internals.MINORS


@pytest.mark.parametrize("version", ["4.1.0", "4.2.7", "4.3.0-SNAPSHOT", "4.3"])
def test_tested_minors_are_taken(version: str) -> None:
    assert spark_internals.untested(version) is None


@pytest.mark.parametrize("version", ["4.0.2", "4.4.0", "4.10.1", "5.1.0", "4.4.0-SNAPSHOT", "next"])
def test_other_minors_are_refused_by_name(version: str) -> None:
    assert f"not tested with Spark {version}, only with 4.1, 4.2, 4.3" in str(
        spark_internals.untested(version)
    )
