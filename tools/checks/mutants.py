"""Measure how many small changes of the deciding code its tests notice.

A mutant is one change in the body of a function: another comparison, a number off by one, a
negated condition, a dropped statement, None instead of a result. The program imports the tests of
a package once. For each mutant it forks, replaces the code of the function, and runs the tests
that call it until one fails. Most mutants cost a second.

PYTHONPATH=. python tools/checks/mutants.py [PACKAGE ...] [--sample 40] [--seed 1] [--json FILE]

Not mutated: tables and defaults at module level, texts of errors, assertions, decorators.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import json
import os
import pickle
import random
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Package:
    """Modules to mutate, and their tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PACKAGES = {
    "conflict": Package(
        ("conflict/commit_overlap", "conflict/conflict_check", "conflict/conflict_matrix",
         "conflict/read_write_sets", "conflict/rebase", "conflict/verdict"),
        ("tests/conflict", "tests/system/transactions/test_rebase.py",
         "tests/system/transactions/test_row_level.py",
         "tests/system/transactions/test_compaction_chains.py",
         "tests/operations/test_identity_columns.py"),
    ),
    "protocol": Package(
        ("commit/commit_protocol", "commit/transaction_plan", "commit/restore_plan"),
        ("tests/commit", "tests/system/simulation", "tests/operations/test_restore.py",
         "tests/operations/test_partition_evolution.py", "tests/operations/test_drop.py",
         "tests/system/transactions/test_rebase.py"),
    ),
    "replay": Package(
        ("snapshot/head", "snapshot/folding", "snapshot/table_state", "snapshot/cursors"),
        ("tests/snapshot", "tests/spec", "tests/log/test_known.py", "tests/log/test_horizon.py",
         "tests/commit/test_overflow_files.py", "tests/operations/test_partition_evolution.py"),
    ),
    "key grammar": Package(
        ("log/object_names",),
        ("tests/log/test_object_names.py", "tests/log/test_known.py", "tests/log/test_codec.py",
         "tests/log/test_compacted_log.py", "tests/log/test_log_reader.py",
         "tests/snapshot/test_checkpoints.py"),
    ),
    "bounds": Package(
        ("data/column_bounds", "data/bound_checks", "expressions/file_pruning"),
        ("tests/data/test_column_bounds.py", "tests/data/test_bound_checks.py",
         "tests/data/test_types.py",
         "tests/expressions/test_file_pruning.py", "tests/expressions/test_condition_keys.py",
         "tests/inspection/test_pruning_reasons.py", "tests/maintenance/test_verify.py"),
    ),
    "checkpoint": Package(
        ("snapshot/checkpoint_base", "snapshot/checkpoint_checks", "snapshot/checkpoint_parts",
         "snapshot/checkpoint_reader", "snapshot/checkpoint_root", "snapshot/checkpoint_writer",
         "snapshot/part_file"),
        ("tests/snapshot", "tests/spec/test_golden.py"),
    ),
    "changes": Package(
        ("changes/commit_rows", "changes/feed_plan", "changes/version_range",
         "changes/changed_rows"),
        ("tests/changes", "tests/inspection/test_commit_blame.py"),
    ),
}  # fmt: skip
"""Packages by name."""

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}

Change = Callable[[Any], Any]
"""Changes a node of a copy of the tree, or returns another one for its place."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    line: int
    function: str
    kind: str
    before: str
    after: str
    at: int
    """Number of the change among those of its module."""

    def __str__(self) -> str:
        where = f"tablefmt/{self.module}.py:{self.line} {self.function}"
        return f"{where}: {self.kind}: `{self.before}` -> `{self.after}`"


def _compare(node: Any, at: int, op: type[ast.cmpop]) -> None:
    node.ops[at] = op()


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield the changes of one node, each with its kind."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for other in _COMPARED.get(type(op), ()):
                yield "comparison", partial(_compare, at=at, op=other)
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "and/or", lambda n: setattr(n, "op", other_op())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negation", lambda n: n.operand
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "negation", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        other_kind = _COMPUTED[type(node.op)]
        yield "arithmetic", lambda n: setattr(n, "op", other_kind())
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", lambda n: setattr(n, "value", not n.value)
        elif isinstance(node.value, int):
            yield "constant", lambda n: setattr(n, "value", n.value + 1)
            yield "constant", lambda n: setattr(n, "value", n.value - 1)
        elif isinstance(node.value, str) and " " not in node.value:
            # A sentence is a message.
            yield "constant", lambda n: setattr(n, "value", n.value + "?")
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return None", lambda n: setattr(n, "value", ast.Constant(None))
    elif isinstance(node, ast.Raise | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "dropped statement", lambda n: ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "break for continue", lambda n: ast.Break()
    elif isinstance(node, ast.Break):
        yield "continue for break", lambda n: ast.Continue()


def _is_text(node: ast.AST) -> bool:
    """Return whether a node is a call that only makes a message: `bad(...)`, `logger.info(...)`."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called.startswith("logger.") or called.endswith(("Error", "bad"))


def _sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str, Change]]:
    """Yield all changes of a module: the node, its outermost function, the kind and the change."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str, str, Change]]:
        if isinstance(node, ast.Assert | ast.JoinedStr):
            return
        for kind, change in _changes(node):
            yield node, function, kind, change
        if isinstance(node, ast.Raise) or _is_text(node):
            # What an error says is no decision.
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            # An assertion about zip.
            return
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "decorator_list", "args", "returns") and isinstance(
                node, ast.AnnAssign | ast.FunctionDef | ast.Lambda
            ):
                continue
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, ast.AST):
                    yield from walk(inner, function)

    def outer(body: list[ast.stmt], prefix: str) -> Iterator[tuple[ast.AST, str, str, Change]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from outer(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                skip = 1 if ast.get_docstring(node) is not None else 0
                for statement in node.body[skip:]:
                    yield from walk(statement, prefix + node.name)

    yield from outer(tree.body, "")


def _source(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    return text if len(text) <= 80 else text[:77] + "..."


def _replaced(tree: ast.Module, node: ast.AST, change: Change) -> ast.AST:
    """Change a node of the tree in place. Return the node that is there now."""
    new: ast.AST | None = change(node)
    if new is None:
        return node
    new = ast.copy_location(new, node)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(each is node for each in value):
                setattr(parent, name, [new if each is node else each for each in value])
    return new


def mutants_of(module: str) -> list[Mutant]:
    """Return all mutants of a module."""
    text = (ROOT / "tablefmt" / f"{module}.py").read_text()
    found = []
    for at, (node, function, kind, change) in enumerate(_sites(ast.parse(text))):
        line = getattr(node, "lineno", 0)
        before = _source(node)
        changed = copy.deepcopy(node)
        new = change(changed)
        after = _source(changed if new is None else new)
        found.append(Mutant(module, line, function, kind, before, after, at))
    return found


def mutated_code(mutant: Mutant) -> CodeType:
    """Return the code of the changed module."""
    path = ROOT / "tablefmt" / f"{mutant.module}.py"
    tree = ast.parse(path.read_text())
    node, _, _, change = next(s for at, s in enumerate(_sites(tree)) if at == mutant.at)
    _replaced(tree, node, change)
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _name(code: CodeType) -> str:
    # Since Python 3.11.
    return str(getattr(code, "co_qualname", ""))


def _install(mutant: Mutant) -> None:
    """Give the mutated code to every object of the function in this process."""
    whole = mutated_code(mutant)
    (new,) = (
        c for c in _codes(whole)
        if _name(c) == mutant.function and c.co_firstlineno <= mutant.line
        and mutant.line in _lines_of(c)
    )  # fmt: skip
    count = 0
    # Tests freeze what they import, and frozen objects are not listed.
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            code = each.__code__
            same = _name(code) == _name(new) and code.co_filename == new.co_filename
            if same and code.co_firstlineno == new.co_firstlineno:
                each.__code__ = new
                count += 1
    assert count, f"{mutant} is not loaded"


def _lines_of(code: CodeType) -> range:
    lines = [line for one in _codes(code) for _, _, line in one.co_lines() if line]
    return range(min(lines), max(lines) + 1)


class Runner:
    """Pytest plugin that imports all tests once, and runs them in forks."""

    def __init__(self, work: Callable[[Runner], None]) -> None:
        self.work, self.failed, self.items = work, False, list[Any]()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Do the work instead of running the tests."""
        assert not session.testsfailed, "the tests cannot be imported"
        self.items = list(session.items)
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        self.failed = self.failed or report.failed

    def run(self, items: list[Any]) -> str | None:
        """Run tests up to the first failure. Return its name, or None."""
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return str(item.nodeid)
        return None


def forked(work: Callable[[], Any], seconds: float, *, quiet: bool = True) -> Any:
    """Return the result of work in a fork; TimeoutError, or EOFError if the process ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        if quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        try:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writer)
    try:
        body, end = b"", time.monotonic() + seconds
        while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            part = os.read(reader, 1 << 20)
            if not part:
                return pickle.loads(body)
            body += part
        raise TimeoutError
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


Calls = dict[tuple[str, int], list[tuple[float, int]]]
"""Tests by the file and line of a function that they call: processor time and place."""


def profile(runner: Runner, paths: frozenset[str]) -> Calls:
    """Return the tests that call each function, by file and line: processor time and place.

    A test that fails without any change is left out.
    """
    found: Calls = {}
    seen: set[CodeType] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    for at, item in enumerate(runner.items):
        seen.clear()
        runner.failed = False
        began = time.process_time()
        threading.setprofile(note)
        sys.setprofile(note)
        runner.run([item])
        sys.setprofile(None)
        threading.setprofile(None)
        used = time.process_time() - began
        if not runner.failed:
            for code in seen:
                if code.co_filename in paths:
                    key = (code.co_filename, code.co_firstlineno)
                    found.setdefault(key, []).append((used, at))
    return found


@dataclass(frozen=True)
class Result:
    """The fate of a mutant."""

    mutant: Mutant
    fate: str
    """killed, timeout, survived, or untested: no test calls the function."""
    by: str = ""


def judge(
    runner: Runner, calls: Calls, mutant: Mutant,
    budget: float, limit: float,
) -> Result:  # fmt: skip
    """Run the tests that call a mutant, the fastest first, within a budget of their own time."""
    path = str(ROOT / "tablefmt" / f"{mutant.module}.py")
    whole = mutated_code(mutant)
    codes = [c for c in _codes(whole) if _name(c).startswith(mutant.function)]
    keys = [(path, c.co_firstlineno) for c in codes if mutant.line in _lines_of(c)]
    tests = sorted({test for key in keys for test in calls.get(key, ())})
    chosen: list[Any] = []
    spent = 0.0
    for used, at in tests:
        spent += used
        if chosen and spent > budget:
            break
        chosen.append(runner.items[at])
    if not chosen:
        return Result(mutant, "untested")

    def work() -> tuple[bool, str | None]:
        try:
            _install(mutant)
        except (AssertionError, ValueError) as error:
            return False, str(error)
        runner.failed = False
        return True, runner.run(chosen)

    try:
        installed, by = forked(work, limit)
    except TimeoutError:
        return Result(mutant, "timeout")
    except EOFError:
        return Result(mutant, "killed", "the process ended")
    if not installed:
        # A mutant that never ran was not noticed by anybody.
        raise RuntimeError(f"{mutant} was not installed: {by}")
    return Result(mutant, "survived", f"{len(chosen)} of {len(tests)} tests") if by is None else (
        Result(mutant, "killed", by)
    )  # fmt: skip


def _key(mutant: dict[str, Any]) -> tuple[str, ...]:
    return tuple(mutant[name] for name in ("module", "function", "kind", "before", "after"))


def run_package(name: str, given: argparse.Namespace) -> list[Result]:
    """Return the fates of a sample of a package's mutants."""
    package = PACKAGES[name]
    chance = random.Random(f"{given.seed} {name}")
    everything = [m for module in package.modules for m in mutants_of(module)]
    sample = chance.sample(everything, min(given.sample, len(everything)))
    if given.again:
        known = {_key(one["mutant"]) for one in json.loads(given.again.read_text())[name]
                 if one["fate"] in ("survived", "untested")}  # fmt: skip
        sample = [one for one in everything if _key(asdict(one)) in known]
    paths = frozenset(str(ROOT / "tablefmt" / f"{m}.py") for m in package.modules)
    results: list[Result] = []

    def work(runner: Runner) -> None:
        began = time.monotonic()
        calls: Calls = forked(lambda: profile(runner, paths), 3600)
        took = time.monotonic() - began
        print(
            f"{name}: {len(everything)} mutants, {len(runner.items)} tests, {took:.0f} s",
            flush=True,
        )
        for mutant in sample:
            one = judge(runner, calls, mutant, given.budget, given.limit)
            results.append(one)
            print(f"  {one.fate}: {mutant}" + (f" ({one.by})" if one.by else ""), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-p", "no:randomly", "-s", "-n", "0", f"--basetemp={folder}/t",
                   "-m", "not soak and not spark and not slow", "--timeout", "0"]  # fmt: skip
        pytest.main([*options, *(given.tests or package.tests)], plugins=[Runner(work)])
    return results


def _module_check() -> None:
    """Fail if the package is another checkout's."""
    package: ModuleType = __import__("tablefmt")
    assert Path(str(package.__file__)).parents[1] == ROOT, "set PYTHONPATH to this checkout"


def main() -> None:
    """Print the score and the survivors of each package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=40, help="mutants of a package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=30, help="seconds of tests for a mutant")
    parser.add_argument("--limit", type=float, default=240, help="seconds until it is stopped")
    parser.add_argument("--again", type=Path, help="only the survivors of this result")
    parser.add_argument("--tests", nargs="*", help="these tests, not those of the package")
    parser.add_argument("--json", type=Path, help="write all fates here")
    given = parser.parse_args()
    os.chdir(ROOT)
    _module_check()
    fates: dict[str, list[Result]] = {}
    for name in given.packages:
        # Each package has its own process: pytest imports tests once for each session.
        fates[name] = forked(partial(run_package, name, given), 36_000, quiet=False)
    for name, results in fates.items():
        dead = sum(one.fate in ("killed", "timeout") for one in results)
        print(f"{name}: {dead} of {len(results)}, {dead / max(len(results), 1):.0%}")
        for one in results:
            if one.fate in ("survived", "untested"):
                print(f"  {one.fate}: {one.mutant} {one.by}")
    if given.json:
        document = {name: [asdict(one) for one in results] for name, results in fates.items()}
        given.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
