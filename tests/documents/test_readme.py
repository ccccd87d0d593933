"""README is short, and its commands are those of CI."""

from __future__ import annotations

import re

from tests.documents.pages import README, SITE, blocks, pages
from tests.places import ROOT

LINES = 200


def test_readme_is_a_front_door() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES


def test_the_test_command_is_the_one_that_ci_calls() -> None:
    """The last part of the second set-up line is the recipe `test`, in the same environment."""
    setup = [block.text for block in blocks(README) if block.language == "sh"]
    assert len(setup) == 2
    install, test = setup[1].strip().split(" && ")[1:]
    recipes = (ROOT / ".ci" / "recipes").read_text(encoding="utf-8")
    assert f"test() {{ {test} " in recipes
    extras = install.rpartition(" -e ")[2].removesuffix("]'")
    assert recipes.partition(" -e ")[2].startswith(extras)
    assert '/recipes" all' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert setup[0].strip().endswith("tablefmt demo")


def test_extras_that_pages_install_exist() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = declared.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))
    named = {
        extra
        for page in pages()
        for found in re.findall(r"pip install[^\n]*\[([\w,]+)\]", page.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert len(named) > 4
    assert named - extras == set()


def test_every_guide_is_linked_from_readme() -> None:
    text = README.read_text(encoding="utf-8")
    guides = [page for folder in ("guide", "from") for page in (SITE / folder).glob("*.md")]
    unlinked = {page.stem for page in guides if page.relative_to(ROOT).as_posix() not in text}
    assert unlinked - {"get-started"} == set()
