"""Write the page `benchmarks/README.md` from the results in `benchmarks/results/`.

    python -m benchmarks.page

Each table shows one benchmark. A line is one case, and its figures come from one run: the newest
result that has the case. A test fails if the page differs from what this program writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS

PAGE = Path(__file__).with_name("README.md")

NOT_SHOWN = {"file_levers"}
"""Benchmarks without a table: file_levers compares choices of ours with each other."""

INTRODUCTION = """\
# Benchmarks

tablefmt beside its peers: plain Parquet, Delta, Iceberg, deltalake, pyarrow, DuckDB and polars.
[How to run the benchmarks](running.md) describes each program.

`python -m benchmarks.page` writes this page from the JSON files in `benchmarks/results/`.
Do not edit it by hand.

- A line's figures come from one run, in which the contestants ran alternately. `run` is its
  number in the list at the end.
- Unless a table says otherwise, a figure is the best of the rounds.
- A ratio compares tablefmt with the best peer of the line. Below 1, tablefmt is ahead: it takes
  less time, or has the higher rate. A ratio above the table's goal is **bold**.
- Machines were shared. A run with a load above the number of cores has noisy figures.
"""

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page."""

    benchmark: str
    """The name in the results' file names."""
    title: str
    unit: str
    pattern: str
    """A regular expression for keys joined by ` > `. Its groups are `case`, `who`, and maybe
    `also`, which continues the case."""
    ours: tuple[str, ...]
    peers: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Contestants that the table shows, and that no ratio counts."""
    goal: float | None = None
    rate: bool = False
    """More is better."""
    same_form: tuple[str, ...] = ()
    """Contestants whose results have the form of ours. A second ratio compares with the best of
    them, if a line has all of them."""
    median: bool = False
    """The median is shown, and not the best round."""
    scale: str | None = None
    """Only results of this scale are shown; None: all."""

    def columns(self) -> tuple[str, ...]:
        """Return the contestants in the order of the columns."""
        return (*self.ours, *self.peers, *self.beside)


ARROW = ("deltalake", "duckdb", "polars", "pyarrow")
BY_COLON = r"(?P<case>[^>]+): (?P<who>[^>:]+)"
BY_WORD = r"(?P<case>[^>]+) (?P<who>tablefmt|deltalake)"

SPARK_WRITE = Section(
    "spark_scan_write",
    "Spark: write and read 8M rows",
    "Seconds",
    r"seconds > (?P<case>\w+) > (?P<who>.+)",
    ("tablefmt functions", "tablefmt format", "tablefmt sql"),
    ("parquet zstd", "parquet sql"),
    ("parquet snappy",),
    goal=1.0,
)

TPCH = Section(
    "spark_tpch",
    "Spark: TPC-H, 6M rows of lineitem",
    "Seconds",
    r"seconds > (?P<case>q\d+|total) > (?P<who>\w+) (?P<also>.+)",
    ("tablefmt",),
    ("parquet",),
    goal=1.0,
    scale="1",
)

PROCESSOR = "Processor seconds of the JVM and of Python"

SECTIONS = (
    Section(
        "arrow_scan",
        "Scans of lineitem into Arrow",
        "Processor seconds. The goal is the better of DuckDB and polars over the bare files."
        " Figures of deltalake and of pyarrow's plain files are beside it."
        " Text in a result of polars is in a form of its own;"
        " `polars into Arrow` converts it to that of tablefmt's result."
        " So `ratio, same form` compares with the better of DuckDB and `polars into Arrow`."
        " A case `to polars` ends in a data frame of polars on both sides",
        rf"processor_seconds > {BY_COLON}",
        ("tablefmt",),
        ("duckdb", "polars"),
        ("polars into Arrow", "deltalake", "pyarrow", "pyarrow plain", "duckdb plain"),
        goal=1.3,
        same_form=("duckdb", "polars into Arrow"),
    ),
    Section(
        "arrow_scan",
        "Scans of lineitem into Arrow, by the clock",
        "Seconds",
        rf"seconds > {BY_COLON}",
        ("tablefmt",),
        ("duckdb", "polars"),
        ("polars into Arrow", "deltalake", "pyarrow", "pyarrow plain", "duckdb plain"),
        goal=1.3,
        same_form=("duckdb", "polars into Arrow"),
    ),
    Section(
        "python_engines",
        "DuckDB and polars over a table",
        "Seconds. `bare` reads the Parquet files without the table, so it returns deleted rows too",
        r"seconds > (?P<case>.+) (?P<who>bare|relation|new)",
        ("relation", "new"),
        ("bare",),
        goal=1.15,
    ),
    Section(
        "checkpoints",
        "Open and plan, without data, by the number of files",
        "Seconds, unless the line names another unit. `processor` is the time of all threads."
        " 100 million files were not measured: the figure is that of the fit t = a + b * files",
        r"(?:seconds, unless the name says otherwise|figures) > (?P<case>[^>]+)"
        r" > (?P<who>\d+(?: by the fit)?)",
        ("10000", "100000", "1000000", "10000000", "100000000 by the fit"),
    ),
    Section(
        "appends",
        "Small appends on a local disk",
        "Appends per second",
        r"appends_per_s > (?P<who>\w+), (?P<case>.+)",
        ("tablefmt",),
        ("deltalake",),
        rate=True,
    ),
    Section(
        "contention",
        "Many processes on one table",
        "Commits per second",
        r"compared > (?P<case>[^>]+) > per_s > (?P<who>\w+), .*",
        ("tablefmt",),
        ("deltalake",),
        rate=True,
    ),
    Section(
        "s3_contention",
        "Appends to one table on an S3 server",
        "Commits per second",
        r"compared > (?P<case>[^>]+) > per_s > (?P<who>\w+), .*",
        ("tablefmt",),
        ("deltalake",),
        rate=True,
    ),
    Section(
        "merge_contention",
        "Two concurrent statements on different rows of one table",
        "Failed of 16",
        r"contests > (?P<who>[^>,]+), two \w+ > (?P<case>\w+) > failed",
        ("arrow", "tablefmt on Spark"),
        (),
        ("deltalake",),
    ),
    Section(
        "arrow_dml",
        "DELETE, UPDATE and MERGE of lineitem without Spark",
        "Seconds",
        rf"seconds > {BY_WORD}",
        ("tablefmt",),
        ("deltalake",),
    ),
    Section(
        "arrow_dml",
        "A scan after 10 % of the rows are deleted",
        "Seconds. The goal is 1.15 of the clean table",
        r"(?P<case>scan)_seconds > (?P<who>clean|after)",
        ("after",),
        ("clean",),
        goal=1.15,
    ),
    Section(
        "arrow_dml_fresh",
        "The first statement of a process",
        "Seconds with all imports",
        rf"seconds > {BY_WORD} all",
        ("tablefmt",),
        ("deltalake",),
    ),
    Section(
        "arrow_write",
        "Write lineitem without Spark",
        "Processor seconds",
        r"processor > (?P<who>\w+), (?P<case>.+)",
        ("tablefmt",),
        ("pyarrow",),
    ),
    Section(
        "compaction",
        "Compaction and clustering of 10M rows in 2,000 files",
        "Rows per second. `level 1` is deltalake with our codec and level. The goal is 1.5 times"
        " its rate, a ratio of 0.67",
        r"(?P<case>compact|order) > rows_a_second > (?P<who>.+)",
        ("tablefmt",),
        ("deltalake", "deltalake, level 1"),
        goal=0.67,
        rate=True,
    ),
    Section(
        "clustering",
        "Files that a point query opens after 100 appends of 20,000 random rows",
        "Files, and rows for each row appended. `clustered` and `not clustered` run `maintain`"
        " after each 10 appends; `clustered once` sorts everything at the end",
        r"opened > (?P<case>[^>]+) > (?P<who>.+)",
        ("clustered",),
        (),
        ("clustered once", "not clustered", "no maintenance"),
    ),
    Section(
        "vacuum",
        "Dry run of a vacuum of 200,000 files",
        "Seconds. deltalake's is a whole vacuum",
        r"(?P<case>seconds) > (?P<who>\w+)",
        ("tablefmt",),
        ("deltalake",),
    ),
    Section(
        "arrow_requests",
        "Requests for data files of scans on S3",
        "Requests. `bare` reads the files of tablefmt by their paths; deltalake reads its own,"
        " whose row groups are eight times as large",
        r"requests > (?P<case>[^:>]+): (?P<who>[^>]+) > of_data",
        ("tablefmt",),
        ("duckdb, bare, s3fs", "polars, bare"),
        ("deltalake", "pyarrow, bare, s3fs", "tablefmt.duckdb", "tablefmt.polars"),
        goal=1.3,
    ),
    Section(
        "arrow_requests",
        "Bytes of data files of scans on S3",
        "Bytes",
        r"requests > (?P<case>[^:>]+): (?P<who>[^>]+) > data_bytes",
        ("tablefmt",),
        ("duckdb, bare, s3fs", "polars, bare"),
        ("deltalake", "pyarrow, bare, s3fs", "tablefmt.duckdb", "tablefmt.polars"),
        goal=1.3,
    ),
    SPARK_WRITE,
    replace(
        SPARK_WRITE,
        title=f"{SPARK_WRITE.title}, processor time",
        unit=PROCESSOR,
        pattern=f"processor_{SPARK_WRITE.pattern}",
    ),
    TPCH,
    replace(
        TPCH,
        title=f"{TPCH.title}, processor time",
        unit=PROCESSOR,
        pattern=f"processor_{TPCH.pattern}",
    ),
    replace(TPCH, title="Spark: TPC-H, 30M rows of lineitem", scale="5"),
    Section(
        "spark_dml",
        "Spark: MERGE, UPDATE and DELETE on 8M rows",
        "Seconds, and bytes written over bytes changed for an amplification",
        r"seconds > (?P<who>\w+) > (?P<case>.+)",
        ("tablefmt",),
        ("iceberg", "delta"),
    ),
    Section(
        "spark_plan",
        "Spark: plan of 100,000 files",
        "Seconds. The goals are 0.25 cold, and 0.1 right after an append",
        r"seconds > (?P<who>tablefmt|delta|delta tuned|iceberg) > (?P<case>.+)",
        ("tablefmt",),
        ("delta", "delta tuned", "iceberg"),
    ),
    Section(
        "spark_planning",
        "Spark: from `read` to the first task, 20,000 files",
        "Seconds",
        r"(?P<who>seconds) > (?P<case>.+)",
        ("seconds",),
    ),
    Section(
        "spark_appends",
        "Spark: 100 appends of 1,000 rows",
        "Seconds of an append",
        r"shape > (?P<who>[^>]+) > (?P<case>first_10|last_10|all)",
        ("tablefmt functions", "tablefmt format"),
        ("parquet",),
    ),
    Section(
        "spark_streams",
        "Spark: streams",
        "Seconds of a batch",
        r"seconds_a_batch > (?P<case>\w+) > (?P<who>.+)",
        ("tablefmt",),
        ("delta tuned",),
        median=True,
    ),
    Section(
        "spark_s3",
        "Spark: a table on S3 (moto)",
        "Seconds",
        r"seconds > (?P<who>[^>]+) > (?P<case>.+)",
        ("tablefmt native", "tablefmt arrow"),
        ("parquet s3a",),
    ),
    Section(
        "constraints",
        "NOT NULL and CHECK",
        "Seconds of a write of 6M rows. `plain` has no constraint",
        r"seconds > (?P<who>arrow|spark) (?P<case>.+)",
        ("arrow", "spark"),
    ),
    Section(
        "pipes",
        "Pipes of 4M rows",
        "Seconds",
        r"(?P<who>seconds) > (?P<case>.+)",
        ("seconds",),
    ),
    Section(
        "exports_delta",
        "Export of 10,000 files to Delta",
        "Seconds, unless the line names another unit",
        r"(?P<who>figures) > (?P<case>.+)",
        ("figures",),
    ),
    Section(
        "exports_iceberg",
        "Export of 10,000 files to Iceberg",
        "Seconds, unless the line names another unit",
        r"(?P<who>figures) > (?P<case>.+)",
        ("figures",),
    ),
    Section(
        "inspection",
        "Inspection of a table of 10,000 commits and 100,000 files",
        "Seconds",
        r"figures > (?P<case>.+) > (?P<who>wall|processor)",
        ("wall", "processor"),
    ),
    Section(
        "conflict_check",
        "Conflict rules",
        "Milliseconds",
        r"(?P<who>milliseconds) > (?P<case>.+)",
        ("milliseconds",),
    ),
)
"""The tables in the order of the page."""


@dataclass(slots=True)
class Runs:
    """The results that the page shows, numbered in the order in which it names them."""

    results: dict[str, list[tuple[str, Result]]]
    """By benchmark: file names and results, the newest first."""
    shown: list[tuple[str, Result]] = field(default_factory=list)

    def number(self, run: tuple[str, Result]) -> int:
        """Return the number of a run, a new one for one that is not shown yet."""
        if run not in self.shown:
            self.shown.append(run)
        return self.shown.index(run) + 1


def read_results(folder: Path) -> dict[str, list[tuple[str, Result]]]:
    """Return the results by benchmark, the newest first.

    Raises:
        SystemExit: a file is not a result.
    """
    found: dict[str, list[tuple[str, Result]]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            name = result["benchmark"]
            _ = result["at"], result["machine"]
        except (ValueError, KeyError, TypeError) as e:
            raise SystemExit(f"{path} is not a result of benchmarks.harness.save: {e!r}") from e
        found.setdefault(name, []).append((path.name, result))
    for runs in found.values():
        runs.sort(key=lambda run: run[1]["at"], reverse=True)
    return found


def figures_of(section: Section, value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yield each figure below a value of a result, with its keys joined by ` > `."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield key, value
    elif isinstance(value, dict):
        best = "median" if section.median else "max" if section.rate else "min"
        for name in (best, "least"):
            if isinstance(value.get(name), int | float) and "median" in value:
                yield key, value[name]
                return
        for name, inner in value.items():
            yield from figures_of(section, inner, f"{key} > {name}" if key else name)


def cases_of(section: Section, result: Result) -> dict[str, dict[str, float]]:
    """Return the figures that a result has for a section: by case, then by contestant."""
    found: dict[str, dict[str, float]] = {}
    if section.scale not in (None, result.get("scale")):
        return found
    for key, figure in figures_of(section, result):
        matched = re.fullmatch(section.pattern, key)
        if matched and matched["who"] in section.columns():
            also = matched.groupdict().get("also")
            case = f"{matched['case']} {also}" if also else matched["case"]
            found.setdefault(case, {})[matched["who"]] = figure
    return found


def written(figure: float | None) -> str:
    """Return a figure with three digits."""
    if figure is None:
        return ""
    if figure == int(figure) or abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.3g}"


def ratio(section: Section, ours: str, figures: Mapping[str, float], names: Sequence[str]) -> str:
    """Return the ratio of a contestant of ours to the best of some peers, as the page shows it."""
    peers = [figures[peer] for peer in names if figures.get(peer)]
    if not peers or not figures.get(ours):
        return ""
    over = max(peers) / figures[ours] if section.rate else figures[ours] / min(peers)
    text = f"{over:.2f}"
    return f"**{text}**" if section.goal is not None and float(text) > section.goal else text


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def table(section: Section, runs: Runs) -> list[str]:
    """Return the lines of a section's table; none if no result has a case of it."""
    newest: dict[str, tuple[tuple[str, Result], dict[str, float]]] = {}
    for run in runs.results.get(section.benchmark, ()):
        for case, figures in cases_of(section, run[1]).items():
            newest.setdefault(case, (run, figures))
    if not newest:
        return []
    there = {who for _, figures in newest.values() for who in figures}
    columns = [who for who in section.columns() if who in there]
    over = [who for who in section.ours if who in there and there & set(section.peers)]
    ratios = ["ratio"] if len(over) == 1 else [f"ratio of {who}" for who in over]
    alike = {*section.same_form} if there.issuperset(section.same_form) else set()
    if alike:
        ratios.append("ratio, same form")
    found = [
        line(["case", *columns, *ratios, "run"]),
        line(["---", *["---:"] * (len(columns) + len(ratios) + 1)]),
    ]
    for case, (run, figures) in newest.items():
        cells = [written(figures.get(who)) for who in columns]
        cells += [ratio(section, who, figures, section.peers) for who in over]
        if alike:
            all_there = section.same_form if alike <= figures.keys() else ()
            cells.append(ratio(section, section.ours[0], figures, all_there))
        found.append(line([case, *cells, str(runs.number(run))]))
    return found


def machine(result: Result) -> list[str]:
    """Return the cells that describe where a result was measured."""
    told = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in told.get("versions", {}).items())
    load = told.get("load_before")
    return [
        result["at"][:16].replace("T", " "),
        str(told["cores"]),
        f"{told['memory_gib']} GiB",
        "" if load is None else f"{load:.1f}",
        told.get("python", ""),
        versions or told.get("note", ""),
    ]


def page(folder: Path, sections: Sequence[Section] = SECTIONS) -> str:
    """Return the text of the page for the results of a folder.

    Raises:
        SystemExit: a file is not a result, or a benchmark with results has no table.
    """
    runs = Runs(read_results(folder))
    missing = set(runs.results) - {section.benchmark for section in sections} - NOT_SHOWN
    if missing:
        raise SystemExit(
            f"no table shows {sorted(missing)}: add it to SECTIONS of benchmarks/page.py"
        )
    blocks = [INTRODUCTION]
    for section in sections:
        lines = table(section, runs)
        if lines:
            goal = "" if section.goal is None else f" Goal of the ratio: {section.goal:g} or less."
            blocks.append(f"## {section.title}\n\n{section.unit}.{goal}\n\n" + "\n".join(lines))
    columns = ["run", "result", "date (UTC)", "cores", "memory", "load", "Python", "versions"]
    listed = [line(columns), line(["---:", *["---"] * (len(columns) - 1)])]
    for at, (name, result) in enumerate(runs.shown, 1):
        listed.append(line([str(at), f"`{name}`", *machine(result)]))
    blocks.append("## Runs\n\n" + "\n".join(listed))
    return "\n\n".join(block.strip() for block in blocks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(RESULTS), encoding="utf-8")
