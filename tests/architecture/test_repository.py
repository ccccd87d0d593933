"""The repository around the package: the commands, the licence, the links between pages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PAGES = ["README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md"]
PAGES += ["benchmarks/README.md", "benchmarks/running.md"]
PAGES += [str(page.relative_to(TOP)) for page in sorted((TOP / "spec").glob("*.md"))]


def text_of(name: str) -> str:
    return (TOP / name).read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """A reader's paste and CI do the same."""
    [line] = [line for line in text_of("README.md").splitlines() if "-m pytest -q -n" in line]
    command = line.split(" && ")[-1]
    assert f"test() {{ {command} " in text_of(".ci/recipes")
    assert '/recipes" all "$@"' in text_of(".ci/run")


def test_every_recipe_is_listed_and_every_listed_recipe_is_there() -> None:
    """`.ci/recipes` alone defines the recipes."""
    source = text_of(".ci/recipes")
    listed = re.findall(r"^## (\w+) ", source, re.MULTILINE)
    defined = re.findall(r"^(\w+)\(\) \{", source, re.MULTILINE)
    assert sorted(listed) == sorted(set(defined) - {"step"})
    answer = subprocess.run(
        [TOP / ".ci/recipes", "nothing"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert [line.split()[1] for line in answer.stdout.splitlines()] == listed


def test_the_licence_is_the_one_that_is_declared() -> None:
    """Apache-2.0, with its whole text."""
    assert 'license = { text = "Apache-2.0" }' in text_of("pyproject.toml")
    text = " ".join(text_of("LICENSE").split())
    assert text.startswith("Apache License Version 2.0, January 2004")
    assert "9. Accepting Warranty or Additional Liability" in text


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    """Links to files of the repository."""
    links = re.findall(r"\]\(([^)#\s]+)\)", text_of(page))
    lost = [
        link
        for link in links
        if "://" not in link and not (TOP / page).parent.joinpath(link).exists()
    ]
    assert lost == []
