"""Plain English in docstrings and pages: openings, lengths of sentences, retired words.

The docstrings, comments and names of tests are checked for openings and retired words.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.syntax import tree_of
from tests.places import ROOT

PACKAGES = tuple(
    sorted(path.name for path in (ROOT / "tablefmt").iterdir() if (path / "__init__.py").exists())
)

CLEAN_PAGES = (
    *("README.md", ".github/CHANGELOG.md", ".github/CONTRIBUTING.md"),
    *("benchmarks/README.md", "benchmarks/running.md"),
    *("spec/matrices/README.md", "spec/examples/entry.md"),
    *(
        page.relative_to(ROOT).as_posix()
        for folder, pattern in (
            ("spec", "*.md"),
            ("spec/decisions", "*.md"),
            ("tools/docs/pages", "**/*.md"),
        )
        for page in sorted((ROOT / folder).glob(pattern))
    ),
)
"""Pages of the repository without retired words. Add a page once it has none."""

OPENERS = frozenset(
    {
        *("as", "how", "nobody", "nothing", "of", "such", "that", "these", "those", "what", "when"),
        *("where", "whether", "which", "who", "whoever", "whom", "whose"),
    }
)
"""Words that a docstring must not open with: they hide the verb or the noun."""

RETIRED = (
    *("basis", "doomed", "gone", "guest", "neighbours", "nobody", "on top of", "passed over"),
    *("pinned", "plane", "portion", "promises", "receipt", "room", "side file", "slate", "spool"),
    *("whoever", "winner"),
)
"""Our own words for things that the field has a word for."""

WORDS_MAX = 35
"""Words of a sentence in a docstring."""

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_ITEM = re.compile(r"\n\s*(?=[\w, *]+:\s|- |\|)|\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\"(])")
_TABLE = re.compile(r"(?m)^.*\S {2,}\S.*$|^\s*=+.*$")
_RULES = re.compile(r"(?:[A-Z]{3}-\d+(?:, |; | \.\. |: ))+")
"""Rules of the specification that a docstring of a test begins with."""
_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED)})s?\b", re.IGNORECASE)


def plain(text: str) -> str:
    """Return a text with a placeholder for every name in backticks."""
    return _CODE.sub("X", text)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text. Arguments, list items and tables are no part of it."""
    for item in _ITEM.split(_TABLE.sub("", plain(text))):
        yield from _SENTENCE_END.split(item)


def docstring_problems(text: str) -> list[str]:
    """Return the rules that a docstring breaks."""
    found = wording_problems(text)
    for sentence in sentences(text):
        if len(sentence.split()) > WORDS_MAX:
            found.append(f"has a sentence of {len(sentence.split())} words: {sentence[:60]!r}")
    return found


def wording_problems(text: str) -> list[str]:
    """Return the bad opening and the retired words of a docstring, after its rules."""
    first = re.match(r"\W*(\w+)", _RULES.sub("", text, count=1))
    found = []
    if first is not None and first[1].lower() in OPENERS:
        found.append(f"opens with {first[1]!r}")
    return found + [f"uses {word!r}" for word in retired_words(text)]


def retired_words(text: str) -> list[str]:
    """Return the retired words of a text, except names of arguments and in backticks."""
    prose = re.sub(r"(?m)^\s+\w+:(?=\s)", "", plain(text))
    return sorted({match[0].lower() for match in _RETIRED.finditer(prose)})


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring of a module with its line, including those of attributes."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def module_problems(paths: list[Path]) -> list[str]:
    """Return the rules that the docstrings of modules break, with their places."""
    problems = []
    for path in paths:
        tree = tree_of(path)
        name = path.relative_to(ROOT).as_posix()
        for line, text in docstrings(tree):
            problems += [f"{name}:{line} {problem}" for problem in docstring_problems(text)]
    return problems


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_a_package_are_plain_english(package: str) -> None:
    paths = sorted((ROOT / "tablefmt" / package).rglob("*.py"))
    assert paths
    assert module_problems(paths) == []


def test_docstrings_of_top_level_modules_are_plain_english() -> None:
    paths = sorted((ROOT / "tablefmt").glob("*.py"))
    assert {"table.py", "errors.py"} <= {path.name for path in paths}
    assert module_problems(paths) == []


@pytest.mark.parametrize("folder", ["benchmarks", "tools"])
def test_docstrings_of_programs_are_plain_english(folder: str) -> None:
    problems = [
        f"{path.relative_to(ROOT).as_posix()}:{line} {problem}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(tree_of(path))
        for problem in docstring_problems(text)
    ]
    assert problems == []


def retired_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield every comment with a retired word with its line. Strings may have `#` too."""
    if not re.search(rf"#.*{_RETIRED.pattern}", source, re.IGNORECASE):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and retired_words(token.string):
            yield token.start[0], token.string


def definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the words of the name of every function and class with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.name).replace("_", " ")
            yield node.lineno, words.strip()


def test_tests_are_written_in_plain_english() -> None:
    problems = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = tree_of(path)
        found = [(line, each) for line, text in docstrings(tree) for each in wording_problems(text)]
        names = [*definitions(tree), (1, path.stem.replace("_", " "))]
        # One search over all names is quicker than one for each.
        names = names if retired_words("\n".join(text for _, text in names)) else []
        for line, text in (*retired_comments(source), *names):
            found += [(line, f"uses {word!r}") for word in retired_words(text)]
        name = path.relative_to(ROOT).as_posix()
        problems += [f"{name}:{line} {problem}" for line, problem in found]
    assert problems == []


def test_pages_use_no_retired_word() -> None:
    found = {
        page: words
        for page in CLEAN_PAGES
        if (words := retired_words((ROOT / page).read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("Return the files live at `version`.", []),
        ("Rows as the table stores them. `winner` is a name.", []),
        ("Return.\n\n    Args:\n        winner: the concurrent commit.\n    ", []),
        ("What lives then.", ["opens with 'What'"]),
        ("ADD-1, ADD-2 .. ADD-4: as before.", ["opens with 'as'"]),
        ("Whether it goes on top of the winners.", ["opens with 'Whether'"]),
        ("Return the side files that are gone.", ["uses 'gone'", "uses 'side files'"]),
        ("Return " + "word " * 34 + "end.", ["has a sentence of 36 words: "]),
        ("Return " + "word " * 33 + "end. Then " + "word " * 30 + "end.", []),
    ],
)
def test_the_rules_find_what_they_are_for(text: str, problems: list[str]) -> None:
    found = docstring_problems(text)
    for each in problems:
        assert any(one.startswith(each) for one in found), (each, found)
    assert bool(found) == bool(problems)
