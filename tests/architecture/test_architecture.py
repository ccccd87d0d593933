"""The shape of the package, read off its source."""

from __future__ import annotations

import ast
import logging
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tablefmt
from tests.architecture.syntax import tree_of

PACKAGE = Path(tablefmt.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules. No process that only collects tests makes them."""
    return {name: tree_of(path) for name, path in MODULES.items()}


LINES = [
    ["printable"],
    ["errors", "telemetry"],
    ["store", "model"],
    ["expressions"],
    ["log", "conflict"],
    ["snapshot", "data"],
    ["commit"],
    ["export"],
    ["session"],
    ["operations", "changes"],
    ["maintenance"],
    ["imports"],
    ["pipes"],
    ["inspection"],
    ["table", ""],
    ["engines"],
    ["duckdb", "polars"],
    ["cli", "spark"],
    ["compat"],
]
"""Packages from low to high. Packages on one line do not import each other. "" is the top level."""

SPARK_LINES = [
    ["spark_options", "pyspark_objects"],
    ["jvm"],
    ["runtime"],
    ["columns"],
    ["backends.python_workers"],
    ["backends.backend_protocol"],
    ["backends.native", "backends.arrow"],
    ["backends"],
    ["statements"],
    ["streams"],
    ["entry"],
    [""],
]
"""The same inside `spark`. A module directly in `backends` may import both packages in it."""

SPARK_LEVEL = {package: level for level, line in enumerate(SPARK_LINES) for package in line}
LEVEL = {package: level for level, line in enumerate(LINES) for package in line}
OUTSIDE = {"testing", "demo", "__main__"}
"""Users of the package that come with it. Only the command line starts the demo."""

PURE = ("model", "expressions", "conflict")
PURE_MODULES = {
    "tablefmt.commit.commit_protocol",
    "tablefmt.commit.transaction_plan",
    "tablefmt.snapshot.head",
    "tablefmt.snapshot.checkpoint_base",
    "tablefmt.snapshot.cursors",
    "tablefmt.snapshot.deletion_vectors",
    "tablefmt.snapshot.file_columns",
    "tablefmt.snapshot.file_history",
    "tablefmt.snapshot.folding",
    "tablefmt.snapshot.segments",
    "tablefmt.snapshot.version_history",
    "tablefmt.snapshot.table_state",
    "tablefmt.expressions.file_pruning",
    "tablefmt.log.codec",
    "tablefmt.log.entry_columns",
    "tablefmt.log.object_names",
    "tablefmt.export.delta_actions",
    "tablefmt.export.delta_schema",
    "tablefmt.export.delta_vectors",
    "tablefmt.export.version_difference",
    "tablefmt.maintenance.removal_plan",
    "tablefmt.operations.compact_plan",
    "tablefmt.snapshot.checkpoint_checks",
    "tablefmt.snapshot.segment_reuse",
    "tablefmt.snapshot.checkpoint_root",
    "tablefmt.commit.restore_plan",
}
IMPURE = {"time", "random", "secrets", "os", "io", "socket", "threading", "subprocess", "pathlib"}

# (module, what it may import all the same, because)
ALLOWED = {
    ("tablefmt.table", "os"),  # os.PathLike, for a type alone
    ("tablefmt.inspection.explained_table", "os"),  # the same
    *(("tablefmt.session.table_scan", name) for name in ("pandas", "polars")),  # the same
    ("tablefmt.data.arrow_results", "pandas"),  # the same
    ("tablefmt.commit.commit_queue", "os"),  # os.getpid: a forked child has a queue of its own
}


def package(module: str) -> str:
    """Return the package of a module: the name after `tablefmt`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def spark_package(module: str) -> str:
    """Return the package inside `spark` of a module: the longest name in SPARK_LINES that fits."""
    parts = module.split(".")[2:]
    return next((r for r in (".".join(parts[:2]), *parts[:1]) if r in SPARK_LEVEL), "")


@cache
def imports(name: str) -> tuple[tuple[str, int], ...]:
    """Full names of what a module imports, anywhere in it, with the line."""
    return tuple(_imports(name))


def _imports(name: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports by a relative name"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield (full if full in MODULES else node.module or ""), node.lineno


def test_packages_import_only_lower_packages() -> None:
    """Layers of the design: downwards, and not sideways."""
    wrong = []
    for name in MODULES:
        if package(name) in OUTSIDE or name == "tablefmt":
            continue
        for wanted, line in imports(name):
            target = package(wanted)
            if not wanted.startswith("tablefmt") or target == package(name):
                continue
            if (package(name), target) == ("cli", "demo"):
                continue
            if target in OUTSIDE or LEVEL[target] >= LEVEL[package(name)]:
                wrong.append(f"{name}:{line} imports {wanted}")
    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    """Also not by an import in a function, or for types alone."""
    graph = {name: {to for to, _ in imports(name)} & MODULES.keys() - {name} for name in MODULES}
    TopologicalSorter(graph).prepare()  # the error names the modules of a circle


def test_packages_of_spark_import_only_lower_packages() -> None:
    """Entry asks statements, statements ask backends, and never the other way."""
    wrong = [
        f"{name}:{line} imports {wanted}"
        for name in MODULES
        if package(name) == "spark"
        for wanted, line in imports(name)
        if package(wanted) == "spark"
        and spark_package(wanted) != spark_package(name)
        and SPARK_LEVEL[spark_package(wanted)] >= SPARK_LEVEL[spark_package(name)]
    ]
    assert wrong == []


BACKENDS = ("tablefmt.spark.backends.native", "tablefmt.spark.backends.arrow")

KNOWS_A_BACKEND = {
    ("tablefmt.spark.entry.spark_session", "native.s3a"),  # for s3=True
    ("tablefmt.spark.entry.python_source", "arrow.arrow_tasks"),  # Spark asks for Arrow batches
    ("tablefmt.spark.entry.python_writer", "arrow.arrow_tasks"),
}
"""Modules that need something of one backend alone, and what."""


def test_statements_and_entry_do_not_know_the_backends() -> None:
    """Only `backend_choice` selects the backend."""
    known = {
        (name, wanted.removeprefix("tablefmt.spark.backends."))
        for name in MODULES
        if spark_package(name) in ("statements", "entry")
        for wanted, _ in imports(name)
        if wanted.startswith(BACKENDS)
    }
    named = [
        f"{name}:{node.lineno}: {node.value}"
        for name, tree in trees().items()
        if spark_package(name) in ("statements", "entry")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in ("native", "arrow")
    ]
    assert known == KNOWS_A_BACKEND
    assert named == []


COMMIT_STEPS = frozenset(
    {
        "begin", "pin", "finish", "commit_staged", "commit_with_retries",
        "OpenTransaction", "TransactionSnapshot", "commit_result", "remove_leftovers",
    }
)  # fmt: skip
"""Calls that `session.staging.autocommit` makes to commit, for every engine."""


def test_spark_commits_only_by_autocommit() -> None:
    """Only `autocommit` begins, pins, finishes or discards a transaction in `spark`."""
    steps, drivers, doors = [], [], set()
    for name, tree in trees().items():
        if package(name) != "spark":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in COMMIT_STEPS:
                    steps.append(f"{name}:{node.lineno} calls {called}")
                if called == "autocommit":
                    doors.add(name)
        drivers += [
            f"{name}:{line} imports {wanted}"
            for wanted, line in imports(name)
            if wanted.startswith("tablefmt.commit.") and wanted not in PURE_COMMIT
        ]
    assert steps == []
    assert drivers == []
    assert doors == {
        "tablefmt.spark.statements.execution",  # statements of a Spark session
        "tablefmt.spark.entry.table_definition",  # REPLACE TABLE without rows
        "tablefmt.spark.entry.python_writer",  # files that tasks wrote in other processes
    }


PURE_COMMIT = {"tablefmt.commit.transaction_plan", "tablefmt.commit.environment"}
"""Modules of `commit` that `spark` may import: staged work as a value, the clock and nonces."""


NAMED_BY_PEERS = {
    "tablefmt.compat.delta.exceptions",
    "tablefmt.compat.delta.tables",
    "tablefmt.compat.deltalake.schema",
    "tablefmt.compat.pyiceberg.catalog",
    "tablefmt.compat.pyiceberg.exceptions",
    "tablefmt.compat.pyiceberg.table",
}
"""Modules whose names users of another library import, so that they change one line."""


def test_names_of_modules_and_packages_are_unique() -> None:
    """A reader who meets a name finds one module or package, wherever it is."""
    named = Counter(name.rpartition(".")[2] for name in MODULES if name not in NAMED_BY_PEERS)
    assert sorted(name for name, count in named.items() if count > 1) == []


def test_every_module_is_in_a_package() -> None:
    """A new folder has to be put in its place in LINES."""
    assert {package(name) for name in MODULES} - set(LEVEL) - OUTSIDE == set()
    inside = {name for name in MODULES if package(name) == "spark" and spark_package(name) == ""}
    assert inside == {"tablefmt.spark"}


@pytest.mark.parametrize(
    ("libraries", "owner"),
    [
        ({"fsspec", "s3fs", "botocore", "aiobotocore", "os"}, "store"),
        ({"pyspark", "py4j"}, "spark"),
        ({"click", "rich"}, "cli"),
        ({"sqlglot"}, "expressions"),
        ({"google"}, ("expressions", "store")),  # protobuf here, google-auth there
        ({"azure", "requests"}, "store"),
        ({"duckdb", "polars"}, ("data", "engines")),
        ({"pandas"}, "demo"),  # pyarrow.dataset imports it by itself where it is installed
    ],
)
def test_a_library_has_one_owner(libraries: set[str], owner: str | tuple[str, str]) -> None:
    """Only its owner imports a library. With two owners, one imports the other."""
    owners = {owner} if isinstance(owner, str) else set(owner)
    wrong = [
        f"{name}:{line} imports {wanted}"
        for name in MODULES
        if package(name) not in {*owners, *OUTSIDE}
        for wanted, line in imports(name)
        if wanted.split(".")[0] in libraries
        and (name, wanted.split(".")[0]) not in ALLOWED
        and not (owner == "store" and package(name) in {"cli", "spark"} and wanted == "os")
    ]
    assert wrong == []


def test_pure_modules_have_no_world() -> None:
    """No clock, chance, disk or thread."""
    wrong = [
        f"{name}:{line} imports {wanted}"
        for name in MODULES
        if package(name) in PURE or name in PURE_MODULES
        for wanted, line in imports(name)
        if wanted.split(".")[0] in IMPURE
    ]
    assert set(MODULES) >= PURE_MODULES
    assert wrong == []


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(name: str) -> int:
    """Lines of a module that are neither empty, nor a comment, nor in a docstring."""
    lines = MODULES[name].read_text(encoding="utf-8").splitlines()
    code = {at for at, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


FACADES = {"tablefmt.table", "tablefmt.spark.entry.spark_table"}
"""Modules whose methods only call others. They may be longer, because users hold one object."""


def statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without the docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_modules_and_functions_are_short() -> None:
    """450 lines of code a module, 70 lines a function. A facade: 20 lines a function's body."""
    long = [name for name in MODULES.keys() - FACADES if code_lines(name) > 450]
    long += [
        f"{name}.{f.name}"
        for name in sorted(FACADES)
        for f in functions(trees()[name])
        if statement_lines(f) > 20
    ]
    for name, tree in trees().items():
        long += [
            f"{name}.{f.name}"
            for f in functions(tree)
            if (f.end_lineno or f.lineno) - f.lineno + 1 > 70
        ]
    assert long == []


def test_the_public_names_are_there_and_no_others() -> None:
    """`tablefmt.__all__`."""
    assert sorted(tablefmt.__all__) == [
        "Commit",
        "PipeRun",
        "Table",
        "__version__",
        "check_store",
        "create",
        "drop",
        "errors",
        "exists",
        "import_table",
        "maintain",
        "open",
        "pipe",
        "write",
    ]
    assert all(hasattr(tablefmt, name) for name in tablefmt.__all__)
    assert (PACKAGE / "py.typed").exists()


def test_logging_is_silent_until_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    """A handler that drops everything, and no level of its own."""
    logger = logging.getLogger("tablefmt")
    assert [type(h) for h in logger.handlers] == [logging.NullHandler]
    assert logger.level == logging.NOTSET


_STORE_CLASSES = {
    "LocalStore", "MemoryStore", "RemoteStore", "S3Store", "CloudStore", "GcsStore", "AzureStore",
    "ForwardingStore", "ReadOnlyStore", "CountingStore", "ImportingStore",
}  # fmt: skip
_ADDRESSES = {"uri", "identity", "probe_scope"}
_OF_TEXT = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "find"}


def _store_dispatch(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that ask for a store's class, its attributes or the text of its address."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in ("hasattr", "getattr", "isinstance"):
            subject, asked = ast.unparse(node.args[0]), ast.unparse(node.args[1])
            of_store = subject.split(".")[-1].strip("_") in ("store", "inner")
            named = set(re.findall(r"\w+", asked)) & _STORE_CLASSES
            if named or (of_store and called.id != "isinstance"):
                yield node.lineno
        elif isinstance(called, ast.Attribute) and called.attr in _OF_TEXT:
            text = called.value
            if not isinstance(text, ast.Attribute) or text.attr not in _ADDRESSES:
                continue
            if ast.unparse(text.value).split(".")[-1].strip("_") in ("store", "inner"):
                yield node.lineno


def test_a_store_is_asked_for_its_traits() -> None:
    """No code looks at the class of a store, at its attributes, or at its address."""
    probe = ast.parse(
        "isinstance(one, (str, LocalStore))\nhasattr(self.store, 'access')\n"
        "store.uri.startswith('s3')\nself._store.identity.partition(':')\nstore.traits.scheme\n"
    )
    assert list(_store_dispatch(probe)) == [1, 2, 3, 4]
    found = {name: lines for name, tree in trees().items() if (lines := [*_store_dispatch(tree)])}
    assert found == {}


def test_the_schemes_of_stores_are_in_one_place() -> None:
    """STO-11: Java asks Python, and Python reads a scheme in `store.location` alone."""
    java = {
        path.name
        for path in (PACKAGE / "spark/jvm/java").glob("*.java")
        if re.search(r'"(s3a?|gs|gcs|abfss?|az|memory)(:|://)?"', path.read_text("utf-8"))
    }
    assert java == set()


def test_names_are_folded_in_one_place() -> None:
    """SCH-2: `str.casefold` answers by the version of Python; `folded` does not."""
    bare = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "casefold"
    ]
    assert {place.split(":")[0] for place in bare} == {"tablefmt.model.name_matching"}, bare


LONG_LINES = 30
"""Lines of a private function from which a reader needs a docstring."""


def undocumented(node: ast.AST, owner: str = "") -> Iterator[tuple[int, str]]:
    """Yield each public class, function and method without a docstring, and each long private one.

    An overload is documented by its implementation, and a function inside another by that one.
    """
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        marks = {ast.unparse(mark).rpartition(".")[2] for mark in child.decorator_list}
        if marks & {"overload", "setter"}:
            continue
        lines = (child.end_lineno or child.lineno) - child.lineno + 1
        public = not child.name.startswith("_")
        name = f"{owner}{child.name}"
        if ast.get_docstring(child) is None and (public or lines > LONG_LINES):
            yield child.lineno, name
        if isinstance(child, ast.ClassDef) and public:
            yield from undocumented(child, f"{name}.")


def test_everything_public_or_long_has_a_docstring() -> None:
    probe = "class A:\n  'A.'\n  def b(self): 0\n  @overload\n  def c(self): 0\ndef d(): 0"
    assert [*undocumented(ast.parse(probe))] == [(3, "A.b"), (6, "d")]
    steps = "\n".join(["  0"] * LONG_LINES)
    assert [*undocumented(ast.parse(f"def _e():\n{steps}"))] == [(1, "_e")]
    assert [*undocumented(ast.parse(f"def _e():\n{steps[:-4]}"))] == []
    found = [
        f"{name}:{line} {what}"
        for name, tree in trees().items()
        for line, what in undocumented(tree)
    ]
    assert found == []
