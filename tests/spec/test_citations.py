"""Who cites a rule means that rule."""

from __future__ import annotations

from pathlib import Path

import citations
import spec_coverage

from tests.places import ROOT

TITLES = spec_coverage.titles(ROOT)

WRONG = {
    "tablefmt/a.py": '''
class Parsed:
    nested: bool
    """Whether it looks into a nested column: then nothing can be reasoned about it (CFL-7)."""
''',
    "tablefmt/b.py": '''
class Join:
    columns: frozenset[str] | None
    """Handles of the columns by which it goes; None if it cannot be reasoned about (CFL-7)."""
''',
    "tablefmt/conditions.py": '''
"""Conditions over rows of the table: how Spark works them out, and what is understood of them.

Spark evaluates every condition itself. What is understood, exactly as PRN-3 has it, leaves out
files and goes to the conflict rules; what is not makes them look at whole files (CFL-7).
"""
''',
    "tablefmt/merge_text.py": '''
"""A MERGE put together in Python: its text as Spark's columns, and what is understood of it.

Text that only Spark understands costs a look at every file. Spec: MRG-1, MRG-3, CFL-7.
"""
''',
    "tablefmt/merge.py": '''
def refuse_doubles(pairs: int) -> None:
    """MRG-2. Raises MergeCardinalityError."""
''',
    "tests/test_writes.py": '''
def test_an_application_version_is_applied_once() -> None:
    """CMT-9."""
    assert write(application=("job", 7)).already_applied
''',
    "tools/a.py": "# Marks of a vector are disjoint (TIM-3).\n",
    "spec/changing.md": "What it leaves out so is not read: its look (CFL-7) has that condition.\n",
}
RIGHT = {
    "tablefmt/c.py": '''
def already_applied(entry: int) -> bool:
    """CFL-7. Raises IdempotenceError."""
    # Two source rows for one target row (MRG-4), and of CMT-1 .. CMT-9, CFL-1, CFL-2, CFL-3 all.
''',
    "tests/test_lists.py": '"""One field spoiled: ENT-3, ENT-4, TIM-3, LIN-1, DEL-2."""\n',
}


def test_no_citation_means_something_else() -> None:
    """Where one that is right is found here, tools/rule_words.py lacks a word."""
    found = [
        f"{c.rule} in {c.path}:{c.line}: {c.text[:80]}" for c in citations.strays(ROOT, TITLES)
    ]
    assert found == []


def test_wrong_numbers_are_found_and_right_ones_are_not(tmp_path: Path) -> None:
    for place, text in {**WRONG, **RIGHT}.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text.lstrip("\n"), encoding="utf-8")
    assert sorted(c.path for c in citations.strays(tmp_path, TITLES)) == sorted(WRONG)


def test_words_are_of_rules_that_there_are() -> None:
    assert set(citations.WORDS) <= set(TITLES)  # type: ignore[attr-defined]
