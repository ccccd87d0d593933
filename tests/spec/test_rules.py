"""The specification, the tests and the code name the same rules."""

from __future__ import annotations

from pathlib import Path

from checks import spec_coverage

from tests.places import ROOT

COVERAGE = spec_coverage.measure(ROOT)


def test_every_rule_has_a_test() -> None:
    """A rule that no test names is not checked."""
    assert COVERAGE.untested == []


def test_every_rule_is_defined_once() -> None:
    assert COVERAGE.doubled == []


def test_code_and_tests_name_no_rule_that_the_specification_lacks() -> None:
    assert COVERAGE.unknown == {}


def test_the_pages_of_the_readme_exist_and_hold_their_rules() -> None:
    """The table in spec/README.md lists the page of each prefix."""
    rows = [
        line.split("|")[1:3]
        for line in (ROOT / "spec" / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| [")
    ]
    said = {
        prefix.strip(): "spec/" + page.split("(")[1].split(")")[0]
        for page, prefixes in rows
        for prefix in prefixes.split(",")
        if prefix.strip()
    }
    found = {rule[:3]: where[0] for rule, where in COVERAGE.defined.items()}
    assert found == said


def test_a_gap_is_found(tmp_path: Path) -> None:
    """Untested, doubled and unknown rules are each reported with their place."""
    for folder in ("spec/golden/case", "tests", "tablefmt"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "spec/a.md").write_text("### QQQ-1  a\n### QQQ-2  b\ntext QQQ-9\n### QQQ-3  c\n")
    (tmp_path / "spec/b.md").write_text("### QQQ-3  again\n")
    (tmp_path / "spec/golden/case/expected.json").write_text('{"rule": "QQQ-3"}')
    (tmp_path / "tests/test_a.py").write_text('"""QQQ-1 in UTF-8 and SHA-256."""')
    (tmp_path / "tablefmt/a.py").write_text("# QQQ-4, QQQ-11\n")
    coverage = spec_coverage.measure(tmp_path)
    assert coverage.untested == ["QQQ-2"]
    assert coverage.doubled == ["QQQ-3"]
    assert coverage.unknown == {"QQQ-4": ["tablefmt/a.py"], "QQQ-11": ["tablefmt/a.py"]}
