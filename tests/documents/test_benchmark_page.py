"""The page of benchmark results, which a program writes from the results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import RESULTS
from benchmarks.page import PAGE, Section, page
from tests.places import ROOT

MACHINE = {
    "cores": 2,
    "memory_gib": 24,
    "python": "3.11.7",
    "load_before": 1.26,
    "versions": {"tablefmt": "0.1.0", "polars": "2.1.0"},
}

READS = Section(
    "reads",
    "Reads of files",
    "Seconds",
    r"seconds > (?P<case>[^>]+): (?P<who>[^>]+)",
    ("tablefmt",),
    ("duckdb", "polars"),
    ("pyarrow",),
    goal=1.3,
)
COMMITS = Section(
    "commits",
    "Commits",
    "Commits per second",
    r"per_s > (?P<who>\w+)\.(?P<case>\w+)",
    ("tablefmt",),
    ("delta",),
    rate=True,
)


def save(folder: Path, name: str, at: str, figures: dict[str, Any]) -> None:
    """Save a result under a name that has nothing to do with its time."""
    result = {"benchmark": name, "at": f"{at}:00.5+00:00", "machine": MACHINE, **figures}
    (folder / f"{name}-{len(list(folder.iterdir()))}.json").write_text(json.dumps(result))


def rounds(*figures: float) -> dict[str, Any]:
    """Return the figures of rounds as benchmarks save them."""
    middle = sorted(figures)[len(figures) // 2]
    return {"min": min(figures), "median": middle, "max": max(figures), "all": list(figures)}


def test_the_page_is_what_the_program_writes() -> None:
    """The page is not edited by hand, and each new result appears on it."""
    assert PAGE.read_text(encoding="utf-8") == page(RESULTS)


def test_every_program_that_saves_results_is_described() -> None:
    """The guide lists the programs; the page shows what they saved."""
    guide = (ROOT / "benchmarks" / "running.md").read_text(encoding="utf-8")
    programs = [p.name for p in (ROOT / "benchmarks").glob("*.py") if "save(" in p.read_text()]
    assert len(programs) > 20
    assert [p for p in programs if f"`{p}`" not in guide and p != "harness.py"] == []


def test_a_line_has_the_newest_figures_of_its_case(tmp_path: Path) -> None:
    """Contestants of a line come from one run. The ratio is to the best peer."""
    old = {
        "key: tablefmt": rounds(9.0),
        "key: pyarrow": rounds(1.0),
        "all: tablefmt": rounds(0.26, 0.3, 0.25),
        "all: duckdb": rounds(0.2),
        "all: polars": rounds(0.25),
    }
    new = {
        "key: tablefmt": rounds(0.0131),
        "key: duckdb": rounds(0.02),
        "key: polars": rounds(0.01),
    }
    save(tmp_path, "reads", "2026-11-22T10:00", {"rows": 7, "seconds": new})
    save(tmp_path, "reads", "2026-11-21T10:00", {"rows": 7, "seconds": old})
    per_s = {"tablefmt.appends": rounds(180, 200, 150), "delta.appends": rounds(50, 40)}
    save(tmp_path, "commits", "2026-11-20T09:30", {"per_s": per_s})
    text = page(tmp_path, (READS, COMMITS))
    assert text.split("## ")[1:] == [
        "Reads of files\n\nSeconds. Goal of the ratio: 1.3 or less.\n\n"
        "| case | tablefmt | duckdb | polars | ratio | run |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| key | 0.0131 | 0.02 | 0.01 | **1.31** | 1 |\n"
        "| all | 0.25 | 0.2 | 0.25 | 1.25 | 2 |\n\n",
        "Commits\n\nCommits per second.\n\n"
        "| case | tablefmt | delta | ratio | run |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| appends | 200 | 50 | 0.25 | 3 |\n\n",
        "Runs\n\n"
        "| run | result | date (UTC) | cores | memory | load | Python | versions |\n"
        "| ---: | --- | --- | --- | --- | --- | --- | --- |\n"
        "| 1 | `reads-0.json` | 2026-11-22 10:00 | 2 | 24 GiB | 1.3 | 3.11.7"
        " | tablefmt 0.1.0, polars 2.1.0 |\n"
        "| 2 | `reads-1.json` | 2026-11-21 10:00 | 2 | 24 GiB | 1.3 | 3.11.7"
        " | tablefmt 0.1.0, polars 2.1.0 |\n"
        "| 3 | `commits-2.json` | 2026-11-20 09:30 | 2 | 24 GiB | 1.3 | 3.11.7"
        " | tablefmt 0.1.0, polars 2.1.0 |\n",
    ]


def test_a_table_shows_results_of_its_scale(tmp_path: Path) -> None:
    """A newer result with more rows does not replace one with fewer."""
    small, large = (replace(READS, title=scale, scale=scale) for scale in ("1", "5"))
    for at, scale, seconds in (("09", "1", 0.5), ("10", "5", 2.5), ("11", "5", 2.25)):
        figures = {"key: tablefmt": rounds(seconds)}
        save(tmp_path, "reads", f"2026-11-22T{at}:00", {"scale": scale, "seconds": figures})
    shown = [part.splitlines()[-1] for part in page(tmp_path, (small, large)).split("\n\n")]
    assert [text for text in shown if text.startswith("| key")] == [
        "| key | 0.5 | 1 |",
        "| key | 2.25 | 2 |",
    ]


def test_a_benchmark_without_a_table_is_an_error(tmp_path: Path) -> None:
    """A result that no table shows would be silently lost."""
    save(tmp_path, "commits", "2026-11-20T09:30", {"per_s": {"tablefmt.appends": rounds(1)}})
    save(tmp_path, "writes", "2026-11-20T09:30", {"seconds": {}})
    with pytest.raises(SystemExit, match=r"no table shows \['writes'\]: add it to SECTIONS"):
        page(tmp_path, (READS, COMMITS))


@pytest.mark.parametrize("text", ["{", "[]", '{"benchmark": "reads", "machine": {}}'])
def test_a_file_that_is_no_result_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "reads-1.json").write_text(text)
    with pytest.raises(SystemExit, match=r"reads-1\.json is not a result of benchmarks"):
        page(tmp_path, (READS,))


def test_a_second_ratio_counts_results_of_the_same_form(tmp_path: Path) -> None:
    """A line that lacks one of these contestants has no second ratio."""
    section = Section(
        "reads",
        "Reads of files",
        "Seconds",
        READS.pattern,
        ("tablefmt",),
        ("duckdb", "polars"),
        ("polars into Arrow",),
        goal=1.3,
        same_form=("duckdb", "polars into Arrow"),
    )
    times = {"tablefmt": 1.2, "duckdb": 1.5, "polars": 0.5, "polars into Arrow": 0.8}
    figures = {f"all: {who}": rounds(seconds) for who, seconds in times.items()}
    figures |= {"to polars: tablefmt": rounds(0.6), "to polars: polars": rounds(0.5)}
    save(tmp_path, "reads", "2026-11-28T08:00", {"seconds": figures})
    text = page(tmp_path, [section])
    assert (
        "| case | tablefmt | duckdb | polars | polars into Arrow | ratio | ratio, same form |"
        in text
    )
    assert "| all | 1.2 | 1.5 | 0.5 | 0.8 | **2.40** | **1.50** | 1 |" in text
    assert "| to polars | 0.6 |  | 0.5 |  | 1.20 |  | 1 |" in text
