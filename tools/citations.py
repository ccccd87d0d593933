"""Where code, tests and pages cite a rule, with the text around; and which of it means another.

A citation is a rule's id in a docstring, a comment or a page. What stands around it has to have
one of the rule's words (`rule_words`): else somebody remembered the wrong number. Ends of a range
and lists of four and more name an area, and are left alone.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rule_words import WORDS

NAME = re.compile(r"\b[A-Z]{3}-\d+\b")
RANGE = re.compile(r"\b[A-Z]{3}-\d+\s*(?:\.\.|to)\s*[A-Z]{3}-\d+\b")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
COMMENTED = re.compile(r"#.*\b[A-Z]{3}-\d+\b")
LIST_LENGTH = 4
SENTENCE = re.compile(r"(?<=[a-z`\"')])\. |\n\s*\n")
SMALL = {"that", "with", "what", "this", "from", "than", "they", "them", "their", "which", "whose"}

Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Citation:
    """A rule's id, where it stands, the text it stands in, and what that text is about."""

    rule: str
    path: str
    line: int
    text: str
    about: str


def strays(root: Path, titles: Mapping[str, str]) -> list[Citation]:
    """Citations of a rule by a text that has none of its words."""
    patterns = {rule: _pattern(rule, title) for rule, title in titles.items()}
    found = []
    for citation in citations(root):
        pattern = patterns.get(citation.rule)
        about = CAMEL.sub(" ", NAME.sub(" ", citation.about)).casefold()
        if pattern is not None and not pattern.search(about):
            found.append(citation)
    return found


def _pattern(rule: str, title: str) -> re.Pattern[str]:
    words = WORDS.get(rule, "").split()
    if not words:
        long = [word for word in re.findall(r"[a-z]{4,}", title.casefold()) if word not in SMALL]
        words = [word[: max(4, len(word) - 2)] for word in long] or [""]
    return re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, words)) + ")")


def citations(root: Path) -> Iterator[Citation]:
    """Those of the package, the tests, the tools and the pages of the specification."""
    for top in ("tablefmt", "tests", "tools"):
        for path in sorted((root / top).rglob("*.py")):
            if path.name != "rule_words.py":
                yield from _of_code(path, path.relative_to(root))
    for path in sorted((root / "spec").glob("*.md")):
        if path.name != "rules.md":
            yield from _of_page(path.read_text("utf-8"), path.relative_to(root).as_posix())


def _single(text: str) -> set[str]:
    """The rules that `text` names one by one."""
    found: set[str] = set()
    for part in SENTENCE.split(text):
        if len(NAME.findall(part)) < LIST_LENGTH:
            found.update(NAME.findall(RANGE.sub(" ", part)))
    return found


def _of_page(text: str, path: str) -> Iterator[Citation]:
    line, title = 1, ""
    for block in text.split("\n\n"):
        heading = re.search(r"^#+ (.*)$", block, re.MULTILINE)
        title = heading[1] if heading else title
        own = NAME.match(title)
        for rule in sorted(_single(block) - ({own[0]} if own else set())):
            yield Citation(rule, path, line, block, f"{title} {block}")
        line += block.count("\n") + 2


def _of_code(path: Path, place: Path) -> Iterator[Citation]:
    source = path.read_text("utf-8")
    if not NAME.search(source):
        return
    tree = ast.parse(source)
    for line, text, about in [*_docstrings(tree, source, place), *_comments(tree, source, place)]:
        for rule in sorted(_single(text)):
            yield Citation(rule, place.as_posix(), line, text, f"{about} {text}")


def _docstrings(tree: ast.Module, source: str, place: Path) -> Iterator[tuple[int, str, str]]:
    """Line, text, and what it is about: names around it; in a test its whole body."""
    is_test = place.parts[0] == "tests"
    folder = " ".join(place.parts[-3:]) if is_test else " ".join(place.parts[-2:])
    lines = source.splitlines()
    everywhere = f"{folder} {(ast.get_docstring(tree) or '') if is_test else ''}"
    defined = [node for node in ast.walk(tree) if isinstance(node, Defined)]
    outline = " ".join(f"{node.name} {ast.get_docstring(node) or ''}" for node in defined)

    def of(node: ast.AST, names: str) -> Iterator[tuple[int, str, str]]:
        names += f" {node.name}" if isinstance(node, Defined) else ""
        before: ast.stmt | None = None
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            text = _text(statement)
            if text is not None and NAME.search(text):
                yield statement.lineno, text, f"{names} {_around(node, before)}"
            before = statement
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from of(child, names)

    def _around(node: ast.AST, before: ast.stmt | None) -> str:
        if before is not None:
            return ast.unparse(before)[:200]
        if isinstance(node, ast.Module):
            return outline
        if isinstance(node, ast.FunctionDef) and is_test:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            return "\n".join(lines[first - 1 : node.end_lineno])
        return ast.unparse(node.args) if isinstance(node, ast.FunctionDef) else ""

    yield from of(tree, everywhere)


def _text(statement: ast.stmt) -> str | None:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    value = statement.value.value if is_text else None  # type: ignore[attr-defined]
    return value if isinstance(value, str) else None


def _comments(tree: ast.Module, source: str, place: Path) -> Iterator[tuple[int, str, str]]:
    """Comments, several lines as one, with the code beside them and the names around."""
    if not COMMENTED.search(source):
        return
    runs: list[list[tokenize.TokenInfo]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if runs and runs[-1][-1].start[0] == token.start[0] - 1:
                runs[-1].append(token)
            else:
                runs.append([token])
    lines = source.splitlines()
    defined = [node for node in ast.walk(tree) if isinstance(node, Defined)]
    for run in runs:
        text = " ".join(token.string.lstrip("# ") for token in run)
        first, last = run[0].start[0], run[-1].start[0]
        names = [n.name for n in defined if n.lineno <= first <= (n.end_lineno or 0)]
        yield first, text, " ".join([place.stem, *names, *lines[first - 1 : last + 1]])
