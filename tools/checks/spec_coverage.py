#!/usr/bin/env python3
"""Print the rules of spec/ without a test or code that names them, and names that are no rules.

A rule is a heading such as `### ENT-1  Bytes`. A test names a rule in its text; a golden case names
one in its expected.json. The exit code is 0 if every rule has a test, and every name is a rule.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HEADING = re.compile(r"^### ([A-Z]{3}-\d+)\b", re.MULTILINE)
NAME = re.compile(r"\b[A-Z]{3}-\d+\b")

Places = dict[str, list[str]]


@dataclass(frozen=True)
class Coverage:
    """Files, relative to the root, by rule id."""

    defined: Places
    tests: Places
    code: Places

    @property
    def untested(self) -> list[str]:
        """Return the rules that no test names."""
        return sorted(set(self.defined) - set(self.tests), key=order)

    @property
    def doubled(self) -> list[str]:
        """Return the rules with two headings."""
        return sorted((rule for rule in self.defined if len(self.defined[rule]) > 1), key=order)

    @property
    def unknown(self) -> Places:
        """Return names that look like rule ids but are none, with their places."""
        prefixes = {rule[:3] for rule in self.defined}
        names = sorted({*self.tests, *self.code} - set(self.defined), key=order)
        return {
            name: self.tests.get(name, []) + self.code.get(name, [])
            for name in names
            if name[:3] in prefixes
        }


def order(rule: str) -> tuple[str, int]:
    """Return a sort key: prefix, then number."""
    prefix, number = rule.split("-")
    return prefix, int(number)


def places(root: Path, files: Iterable[Path], pattern: re.Pattern[str]) -> Places:
    """Return the places of each rule; a heading that occurs twice in a file counts twice."""
    found: Places = defaultdict(list)
    for path in sorted(files):
        names = pattern.findall(path.read_text(encoding="utf-8"))
        for name in names if pattern is HEADING else sorted(set(names)):
            found[name].append(path.relative_to(root).as_posix())
    return dict(found)


def measure(root: Path) -> Coverage:
    """Read the specification, the tests and the code under `root`."""
    tests = [*(root / "tests").rglob("*.py"), *(root / "spec" / "golden").glob("*/expected.json")]
    return Coverage(
        defined=places(root, (root / "spec").glob("*.md"), HEADING),
        tests=places(root, tests, NAME),
        code=places(root, (root / "tablefmt").rglob("*.py"), NAME),
    )


def main() -> int:
    """Print the table of rules and its problems."""
    root = Path(__file__).resolve().parents[2]
    coverage = measure(root)
    for rule in sorted(coverage.defined, key=order):
        tests, code = (len(named.get(rule, [])) for named in (coverage.tests, coverage.code))
        print(f"{rule:8} tests {tests:3}  code {code:3}  {coverage.defined[rule][0]}")
    for rule in coverage.untested:
        print(f"no test names {rule}")
    for rule in coverage.doubled:
        print(f"defined twice: {rule} in {', '.join(coverage.defined[rule])}")
    for name, where in coverage.unknown.items():
        print(f"no such rule: {name}, named in {', '.join(where)}")
    wrong = [coverage.untested, coverage.doubled, coverage.unknown]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
