"""Hooks of the documentation site: pages from other folders, tables from data, no network access.

mkdocs calls these functions by name. `pages/` has the guides. The specification and the pages of
`.github/` stay in their folders, and these hooks add them to the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "tools" / "docs" / "pages"
sys.path.insert(0, str(ROOT / "tools"))

from docs import conflict_tables, error_guide, finding_tables  # noqa: E402

PROJECT = {
    ".github/CONTRIBUTING.md": "project/CONTRIBUTING.md",
    ".github/CHANGELOG.md": "project/CHANGELOG.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/running.md": "project/running-benchmarks.md",
    "spec/vectors/entry-text.json": "spec/vectors/entry-text.json",
    "spec/schemas/check-store.schema.json": "spec/schemas/check-store.schema.json",
    "spec/schemas/verify.schema.json": "spec/schemas/verify.schema.json",
}
"""Pages from outside `spec/`, and their names in the site."""

GUIDES = ("guide/", "from/", "troubleshooting", "limits", "glossary")
"""Pages that a search ranks above the reference and the specification."""

MARKERS: dict[str, Callable[[], str]] = {
    "<!-- conflicts: transaction -->": conflict_tables.transaction_tables,
    "<!-- conflicts: file and row -->": conflict_tables.file_and_row_tables,
    "<!-- errors -->": error_guide.sections,
    "<!-- store faults -->": finding_tables.store_faults,
    "<!-- findings -->": finding_tables.findings,
}
"""Markers in pages, and the functions that render their replacements."""

SHOWN = re.compile(r"^```(?:sh|text)$", re.MULTILINE)
"""Openings of blocks that no test runs."""

LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\ssrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)[^>]*href=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*href=["']?(?:https?:)?//[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)"""
)
"""Assets that a browser would fetch from the network when somebody reads a page."""


def sources() -> dict[str, Path]:
    """Return the pages from outside `pages/`: name in the site to file in the repository."""
    found = {name: ROOT / path for path, name in PROJECT.items()}
    for pattern in ("*.md", "matrices/*.md", "decisions/*.md", "examples/*.md"):
        for path in sorted((ROOT / "spec").glob(pattern)):
            found[path.relative_to(ROOT).as_posix()] = path
    return found


def on_files(files: Files, *, config: Any) -> Files:
    """Add the specification and the project's pages; mkdocs reads them where they are."""
    for name, path in sources().items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, "spec/decisions/index.md", content=decisions()))
    return files


def decisions() -> str:
    """Return a page that lists the decisions."""
    lines = ["# Decisions", "", "Why the design is as it is, in the order of the decisions.", ""]
    for path in sorted((ROOT / "spec" / "decisions").glob("*.md")):
        heading = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{heading}]({path.name})")
    return "\n".join(lines)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Fill in the markers, and fix links of pages from other folders of the repository."""
    page.meta.setdefault("search", {"boost": 2 if page.file.src_uri.startswith(GUIDES) else 1})
    for marker, render in MARKERS.items():
        if marker in markdown:
            markdown = markdown.replace(marker, render())
    # A reader sees which blocks no test has run: tests/documents/pages.py has the reasons.
    markdown = SHOWN.sub(r'\g<0> title="Shown only, not tested"', markdown)
    path = sources().get(page.file.src_uri)
    return markdown if path is None else with_links(markdown, page.file.src_uri, path)


def with_links(markdown: str, name: str, path: Path) -> str:
    """Rewrite links to the pages of the site."""
    known = {place.resolve(): uri for uri, place in sources().items()}
    known |= {page: page.relative_to(PAGES).as_posix() for page in PAGES.rglob("*.md")}
    up = "../" * name.count("/")

    def mended(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target:
            return match[0]
        place = (path.parent / target).resolve()
        if place not in known:
            raise PluginError(f"{path}: the site has no page for the link {target}")
        return f"{match[1]}{up}{known[place]}{match[3]}"

    return LINK.sub(mended, markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Refuse a page that would fetch an asset from the network."""
    found = FETCHED.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} fetches from the network: {found[0]!r}")
    return output
