"""Plain English everywhere a person reads: openings, lengths of sentences, retired words.

This covers pages, docstrings, comments, error messages, the help of commands, and names.
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
    *("basis", "doomed", "foldedfile", "gone", "guest", "hearsay", "nobody", "on top of"),
    *("passed over", "pinned", "plane", "portion", "promises", "receipt", "room", "rowturn"),
    *("side file", "slate", "spool", "thereof", "whoever", "winner", "neighbours"),
)
"""Our own words for things that the field has a word for. They are in no text, and in no name."""

AMBIGUOUS = (
    *("bridge verb", "carried", "comes? along", "ends of (?:a |the |its |their )?file", "goes by"),
    *("go(?:es)? on (?:after|from|with)", "is (?:said|told)", "matrix cell", "packed", "standing"),
    *("(?:a|first|each|every) look", "(?<!replication )lag(?![s(])", "(?<!retention )horizon"),
    *("(?:the|a|its|their|my|get|take) turn", r"total(?=s\b)"),
)
"""Patterns of words that mean something else, too. Names of tests may have them."""

WORD_LISTS = frozenset({"sql_vocabulary.py", "value_growth.py", "report_page.py"})
"""Modules with long texts that are no sentences: names of functions, and a style sheet."""

WORDS_MAX = 35
"""Words of a sentence in a docstring or on a page."""

PUBLIC = frozenset(
    {
        # Fields of the format, and the classes and functions with the names of the fields.
        *("basis", "Basis", "_basis", "gone", "horizon", "horizon_to_json", "horizon_from_json"),
        *("totals", "Totals", "_totals", "totals_to_json", "totals_from_json", "_check_totals"),
        *("totals_at",),
        # Names of the public API and of the columns of its results.
        *("winner", "last_winner", "winner_version", "winner_operation", "lag", "LagReport"),
        *("SourceLag",),
    }
)
"""Names that keep a retired word. Only these: a name of our own has the field's word."""

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_ITEM = re.compile(r"\n\s*(?=[\w, *]+:\s|- |\|)|\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\"(])")
_PAGE_SENTENCE_END = re.compile(r"(?<=[.!?:])[*_)\"]*\s+(?=[A-Z0-9\"(*\[])")
_TABLE = re.compile(r"(?m)^.*\S {2,}\S.*$|^\s*=+.*$")
_RULES = re.compile(r"(?:[A-Z]{3}-\d+(?:, |; | \.\. |: ))+")
"""Rules of the specification that a docstring of a test begins with."""
_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED)})s?\b", re.IGNORECASE)
_AMBIGUOUS = re.compile(rf"\b(?:{'|'.join(AMBIGUOUS)})s?\b", re.IGNORECASE)
_RETIRED_NAME = re.compile(
    rf"\b(?:{'|'.join(RETIRED)}|(?<!retention )horizon|(?<!replication )lag|standing|totals)s?\b",
    re.IGNORECASE,
)


def plain(text: str) -> str:
    """Return a text with a placeholder for every name in backticks."""
    return _CODE.sub("X", text)


def page_items(text: str) -> Iterator[str]:
    """Yield the paragraphs, headings, list items and table cells of a page, each on one line.

    A cell may be a list with semicolons: then its parts are yielded.
    """
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    item: list[str] = []
    for line in (*text.splitlines(), ""):
        words = line.strip().removeprefix("> ").strip()
        begins = re.match(r"(?:#+|[-*]|\d+\.) |:::|!!!|\?\?\?|\|", words)
        if item and (begins or not words or item[0].startswith("#")):
            yield " ".join(item)
            item = []
        if words.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", words):
                yield from cell.strip().split("; ")
        elif words:
            item.append(words)


def page_problems(text: str) -> list[str]:
    """Return the long sentences and the retired words of a page."""
    found = [f"uses {word!r}" for word in retired_words(text)]
    for item in page_items(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"``.+?``|`[^`]*`", "X", item))
        for sentence in _PAGE_SENTENCE_END.split(shown):
            if len(sentence.split()) > WORDS_MAX:
                found.append(f"has a sentence of {len(sentence.split())} words: {sentence[:60]!r}")
    return found


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text. Arguments, list items and tables are no part of it."""
    for item in _ITEM.split(_TABLE.sub("", plain(text))):
        yield from _SENTENCE_END.split(item)


def docstring_problems(text: str) -> list[str]:
    """Return the rules that a docstring breaks."""
    return wording_problems(text) + long_sentences(text)


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a text that are too long."""
    return [
        f"has a sentence of {len(sentence.split())} words: {sentence[:60]!r}"
        for sentence in sentences(text)
        if len(sentence.split()) > WORDS_MAX
    ]


def wording_problems(text: str, *, ambiguous: bool = True) -> list[str]:
    """Return the bad opening and the retired words of a docstring, after its rules."""
    first = re.match(r"\W*(\w+)", _RULES.sub("", text, count=1))
    found = []
    if first is not None and first[1].lower() in OPENERS:
        found.append(f"opens with {first[1]!r}")
    return found + [f"uses {word!r}" for word in retired_words(text, ambiguous=ambiguous)]


def retired_words(text: str, *, ambiguous: bool = True) -> list[str]:
    """Return the retired words of a text, except names of arguments and in backticks."""
    prose = " ".join(re.sub(r"(?m)^\s+\w+:(?=\s)", "", plain(text)).split())
    patterns = (_RETIRED, _AMBIGUOUS) if ambiguous else (_RETIRED,)
    return sorted({m[0].lower() for pattern in patterns for m in pattern.finditer(prose)})


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


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield every comment that may have a retired word with its line. Strings may have `#` too."""
    lines = [line for line in source.splitlines() if "#" in line]
    if not retired_words("\n".join(lines)):  # quicker than tokens of each module
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the words of the name of every function and class with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.name).replace("_", " ")
            yield node.lineno, words.strip()


def shown_strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts with spaces that a program may show, with their lines.

    Messages of errors and the help of commands are among them. Docstrings are left out.
    """
    parts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(each) for each in node.values}
            words = [e.value if isinstance(e, ast.Constant) else "X" for e in node.values]
            yield node.lineno, "".join(map(str, words))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in parts:
            continue
        if isinstance(node.value, str) and node.value.count(" ") > 1:
            yield node.lineno, node.value


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that a module gives, with its line: of a class, a function, a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@pytest.mark.parametrize("package", [*PACKAGES, ""])
def test_the_package_shows_no_retired_word(package: str) -> None:
    """Comments, messages of errors, the help of commands, and names in the code."""
    folder = ROOT / "tablefmt" / package
    problems = []
    for path in sorted(folder.rglob("*.py") if package else folder.glob("*.py")):
        source, tree = path.read_text(encoding="utf-8"), tree_of(path)
        found = [
            (line, f"uses {word!r}: {text.strip()[:60]!r}")
            for line, text in (*comments(source), *shown_strings(tree))
            for word in retired_words(text)
        ]
        for line, name in defined_names(tree):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ")
            if name not in PUBLIC and _RETIRED_NAME.search(words):
                found.append((line, f"names {name!r}"))
        if path.name not in WORD_LISTS:
            found += [(n, one) for n, text in shown_strings(tree) for one in long_sentences(text)]
        problems += [f"{path.relative_to(ROOT).as_posix()}:{line} {one}" for line, one in found]
    assert problems == []


def test_java_and_settings_use_no_retired_word() -> None:
    """Comments of the Java classes and of the project's settings, and the project's summary."""
    problems = []
    for path in sorted((ROOT / "tablefmt").rglob("*.java")):
        for comment in re.findall(r"/\*.*?\*/|//[^\n]*", path.read_text("utf-8"), re.DOTALL):
            words = retired_words(re.sub(r"@param \w+", "", comment))
            problems += [f"{path.name} uses {word!r}" for word in words]
    for name in ("pyproject.toml", ".ci/recipes", "tools/docs/mkdocs.yml"):
        for line in (ROOT / name).read_text("utf-8").splitlines():
            shown = line if line.startswith(("description", "site_description")) else ""
            shown += " ".join(re.findall(r"#.*", line))
            problems += [f"{name} uses {word!r}" for word in retired_words(shown)]
    assert problems == []


def test_tests_are_written_in_plain_english() -> None:
    problems = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = tree_of(path)
        found = [
            (line, each)
            for line, text in docstrings(tree)
            for each in wording_problems(text, ambiguous=False)
        ]
        names = [*definitions(tree), (1, path.stem.replace("_", " "))]
        # One search over all names is quicker than one for each.
        names = (
            names if retired_words("\n".join(text for _, text in names), ambiguous=False) else []
        )
        for line, text in (*comments(source), *names):
            found += [(line, f"uses {word!r}") for word in retired_words(text, ambiguous=False)]
        name = path.relative_to(ROOT).as_posix()
        problems += [f"{name}:{line} {problem}" for line, problem in found]
    assert problems == []


def test_pages_are_plain_english() -> None:
    found = {
        page: problems
        for page in CLEAN_PAGES
        if (problems := page_problems((ROOT / page).read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_rules_find_long_sentences_of_pages() -> None:
    long = "word " * 20 + "and `a b c` then\n" + "word " * 16 + "end."
    assert page_problems(f"# Title\n\n{long}\n")[0].startswith("has a sentence of 40 words")
    assert page_problems(f"- {long.replace(' then', '. Then')}\n- Next.\n") == []
    assert page_problems(f"| a | {long.replace(' then', '; then')} |\n") == []
    assert page_problems(f"```text\n{long}\n```\n") == []
    assert page_problems("The lag of it.\n") == ["uses 'lag'"]
    assert page_problems("Replication lag, `lag`, a retention horizon.\n") == []


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
