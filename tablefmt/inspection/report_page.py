"""The page of a table's report: HTML in one file that loads nothing and runs no script. Pure.

All text of the table is escaped, and unprintable characters are shown as escapes (SEC-1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.inspection.report_facts import NEWEST, Columns, Files, ReportFacts
from tablefmt.model.times import show_time
from tablefmt.printable import printable

WIDTH, HEIGHT = 720, 150
"""Size of a chart in its own units. The page scales it to the space that there is."""
POINTS = 200
"""Groups of versions that a line shows: the least and the greatest value of each."""
SLOTS = 60
"""Bars of the chart of commits by time."""
KINDS = 6
"""Operations with a colour of their own. The others share one."""
CELL = 300
"""Longest text of a cell, in characters."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #d9dee6; --card: #fff;
  --page: #f4f6f9; --warn: #9a3412; --k0: #2f6fde; --k1: #d9822b; --k2: #2f9e6e; --k3: #b8447a;
  --k4: #7a5bd0; --k5: #0f8ea3; --k6: #8793a5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b5; --line: #343d4b;
  --card: #1b212b; --page: #12161d; --warn: #fdba74; --k0: #6ea0ff; --k1: #f0a558; --k2: #57c595;
  --k3: #e57fae; --k4: #a58df0; --k5: #4fc0d3; --k6: #8793a5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 8px; }
h3 { font-size: 14px; margin: 12px 0 4px; color: var(--soft); font-weight: 600; }
p { margin: 4px 0; color: var(--soft); overflow-wrap: anywhere; }
.grid { display: grid; gap: 16px; margin-top: 16px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 16px; min-width: 0; }
section.wide { grid-column: 1 / -1; }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin-top: 12px; }
.facts b { display: block; font-size: 20px; font-weight: 600; }
.facts span { color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; display: block; }
.ends { display: flex; justify-content: space-between; gap: 8px; font-size: 12px;
  color: var(--soft); }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; margin-top: 4px; }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.problem { color: var(--warn); }
"""


def report_page(facts: ReportFacts) -> str:
    """Return the report as one HTML document."""
    title = f"{facts.uri}: version {facts.version}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Even if text of a table were not escaped, nothing would be loaded or run.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{text(title)}</title><style>{_STYLE}</style></head><body><main>",
        _head(facts),
        '<div class="grid">',
        *_sections(facts),
        "</div></main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def text(value: Any) -> str:
    """Return a value as escaped text of at most CELL characters."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    shown = printable(str(value))
    return escape(shown if len(shown) <= CELL else f"{shown[: CELL - 1]}…")


def size_text(size: float) -> str:
    """Return a number of bytes in a unit that a person reads: 1,536 is `1.5 KiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"


def _head(facts: ReportFacts) -> str:
    counts: list[tuple[str, str]] = [("version", text(facts.version))]
    if facts.files is not None:
        counts += [
            ("rows", text(facts.files.rows)),
            ("live files", text(facts.files.count)),
            ("size", size_text(facts.files.bytes)),
        ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in counts)
    return (
        f"<h1>{text(facts.uri)}</h1><p>table {text(facts.table)}, read {text(facts.read_at)}</p>"
        f'<div class="facts">{cells}</div>'
    )


def _sections(facts: ReportFacts) -> Iterator[str]:
    yield _section("Health", _health(facts), wide=True)
    if facts.versions is not None and facts.versions.num_rows:
        yield _section("Rows, files and bytes by version", _growth(facts.versions))
        yield _section("Commits by time", _commits_by_time(facts.versions))
    if facts.files is not None:
        yield _section("Files by size", _by_size(facts.files))
        if facts.files.largest.rows:
            yield _section("Partitions", _partitions(facts.files))
    if facts.rebased is not None and facts.refused is not None:
        none = "No commit met a concurrent one."
        yield _section(
            "Concurrent commits", html_table(facts.rebased, none) + _refused(facts.refused)
        )
    if facts.retention is not None:
        yield _section("Retention", _pairs(facts.retention))
    if facts.sources is not None:
        yield _section(
            "Streams and pipes", html_table(facts.sources, "No stream or pipe writes here.")
        )
    if facts.tags is not None and facts.tags.rows:
        yield _section("Tags", html_table(facts.tags))
    if facts.exports is not None:
        none = "The property export names no format."
        yield _section("Copies for other readers", html_table(facts.exports, none))
    yield _section("Table", _pairs(facts.about))
    yield _section("Columns", html_table(facts.schema))
    if facts.versions is not None:
        yield _section(f"The newest {NEWEST} commits", _newest(facts.versions), wide=True)


def _section(title: str, body: str, *, wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{text(title)}</h2>{body}</section>"


def _health(facts: ReportFacts) -> str:
    lines = [
        f'<p class="problem">{text(part)} could not be read: {text(why)}</p>'
        for part, why in facts.problems.items()
    ]
    if facts.upkeep is not None:
        lines.append(html_table(facts.upkeep, "No maintenance is due."))
        if facts.upkeep.rows:
            lines.append(f"<p><b>tablefmt maintain {text(facts.uri)}</b> does what is due.</p>")
    verify = f"<b>tablefmt verify {text(facts.uri)}</b>"
    lines.append(f"<p>This page reads the log. {verify} checks every file.</p>")
    return "".join(lines)


def _refused(refused: Columns) -> str:
    hint = "<p>The next commit of a process reports its refused ones.</p>"
    return f"<h3>Refused commits</h3>{html_table(refused, 'No entry reports one.')}{hint}"


def html_table(columns: Columns, none: str = "") -> str:
    """Return the rows as an HTML table; the text `none` if there are none."""
    if not columns.rows:
        return f"<p>{text(none)}</p>"
    right = [
        all(isinstance(row[at], int) or row[at] is None for row in columns.rows)
        for at in range(len(columns.names))
    ]
    marks = [' class="n"' if each else "" for each in right]
    names = zip(marks, columns.names, strict=True)
    head = "".join(f"<th{mark}>{text(name)}</th>" for mark, name in names)
    lines = [
        "<tr>"
        + "".join(
            f"<td{mark}>{size_text(value) if name == 'bytes' else text(value)}</td>"
            for mark, name, value in zip(marks, columns.names, row, strict=True)
        )
        + "</tr>"
        for row in columns.rows
    ]
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _pairs(pairs: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><th>{text(name)}</th><td>"
        f"{size_text(value) if name.startswith('bytes') else text(value)}</td></tr>"
        for name, value in pairs.items()
    )
    return f'<div class="scroll"><table>{rows}</table></div>'


def _growth(versions: pa.Table) -> str:
    numbers: NDArray[np.int64] = versions["version"].to_numpy()
    charts = []
    for at, name in enumerate(("rows", "files", "bytes")):
        values: NDArray[np.int64] = versions[name].to_numpy()
        most = size_text(int(values.max())) if name == "bytes" else text(int(values.max()))
        charts.append(f"<h3>{name}: at most {most}</h3>{_line(numbers, values, f'var(--k{at})')}")
    return "".join(charts)


def _line(numbers: NDArray[np.int64], values: NDArray[np.int64], colour: str) -> str:
    """Return a chart of the values by version."""
    bottom = HEIGHT // 2
    most = max(int(values.max()), 1)
    first, last = int(numbers[0]), int(numbers[-1])
    span = max(last - first, 1)
    places = [
        f"{(int(numbers[at]) - first) / span * WIDTH:.1f},"
        f"{bottom - int(values[at]) / most * (bottom - 4):.1f}"
        for at in _shown(values)
    ]
    end = places[-1].split(",")[0]
    line = " ".join(places)
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 1}" role="img" aria-label="by version">'
        f'<polygon points="0,{bottom} {line} {end},{bottom}" fill="{colour}" opacity="0.15"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<line x1="0" x2="{WIDTH}" y1="{bottom}" y2="{bottom}" stroke="var(--line)"/></svg>'
        f"{_ends(f'version {first:,}', f'{last:,}')}"
    )


def _shown(values: NDArray[np.int64]) -> list[int]:
    """Return the places of the values to draw: the first, the last, and extremes of groups."""
    if len(values) <= 2 * POINTS:
        return list(range(len(values)))
    edges = np.linspace(0, len(values), POINTS + 1).astype(int)
    found = {0, len(values) - 1}
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        group = values[start:end]
        found |= {start + int(group.argmin()), start + int(group.argmax())}
    return sorted(found)


def _commits_by_time(versions: pa.Table) -> str:
    """Return a bar chart of the commits over time, by operation."""
    times: NDArray[np.int64] = versions["timestamp"].to_numpy()
    names = versions["operation"].to_pylist()
    counts = Counter(names)
    kinds = [name for name, _ in counts.most_common(KINDS)]
    first, last = int(times[0]), int(times[-1])
    # As floats: eight thousand years in µs, times the number of slots, exceed 64 bits.
    slot = ((times - first) / max(last - first, 1) * SLOTS).astype(np.int64).clip(max=SLOTS - 1)
    place = {name: at for at, name in enumerate(kinds)}
    kind = np.array([place.get(name, KINDS) for name in names])
    table = np.zeros((SLOTS, KINDS + 1), np.int64)
    np.add.at(table, (slot, kind), 1)
    most = max(int(table.sum(axis=1).max()), 1)
    step, bottom = WIDTH / SLOTS, HEIGHT
    bars = []
    for column in range(SLOTS):
        top = float(bottom)
        for at in range(KINDS + 1):
            height = int(table[column, at]) / most * (bottom - 4)
            if height:
                top -= height
                bars.append(
                    f'<rect x="{column * step + 1:.1f}" y="{top:.1f}" width="{step - 2:.1f}" '
                    f'height="{height:.1f}" fill="var(--k{at})"/>'
                )
    shown = [(f"var(--k{place[name]})", f"{name}: {counts[name]:,}") for name in kinds]
    others = sum(counts.values()) - sum(counts[name] for name in kinds)
    if others:
        shown.append((f"var(--k{KINDS})", f"others: {others:,}"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 1}" role="img" aria-label="commits by time">'
        f"{''.join(bars)}"
        f'<line x1="0" x2="{WIDTH}" y1="{bottom}" y2="{bottom}" stroke="var(--line)"/></svg>'
        f"{_ends(show_time(first)[:19], show_time(last)[:19])}{_key(shown)}"
        f"<p>Times are in UTC. The highest bar is {most:,} commits.</p>"
    )


def _ends(first: str, last: str) -> str:
    """Return the labels below the left and the right end of a chart."""
    return f'<div class="ends"><span>{text(first)}</span><span>{text(last)}</span></div>'


def _key(shown: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<span><i style="background:{colour}"></i>{text(name)}</span>' for colour, name in shown
    )
    return f'<div class="key">{items}</div>'


def _by_size(files: Files) -> str:
    if not files.by_size:
        return "<p>The table has no files.</p>"
    most = max(count for _, count in files.by_size)
    rows = "".join(
        f"<tr><td>{size_text(low)} to {size_text(2 * low)}</td>"
        f'<td class="n">{count:,}</td><td style="width:60%">'
        f'<svg viewBox="0 0 100 6" preserveAspectRatio="none" style="height:12px">'
        f'<rect width="{max(count / most * 100, 0.5):.1f}" height="6" fill="var(--k0)"/>'
        "</svg></td></tr>"
        for low, count in files.by_size
    )
    note = f"{files.deleted:,} deleted rows in {files.with_deleted:,} files wait for compaction."
    return f"<table>{rows}</table><p>{note}</p>"


def _partitions(files: Files) -> str:
    parts = f"<h3>the largest</h3>{html_table(files.largest)}"
    if files.smallest.rows:
        parts += f"<h3>with the smallest files on average</h3>{html_table(files.smallest)}"
    return parts


def _newest(versions: pa.Table) -> str:
    rows: Sequence[Mapping[str, Any]] = versions.slice(
        max(0, versions.num_rows - NEWEST)
    ).to_pylist()
    names = ("version", "time", "operation", "rows after it", "files", "bytes")
    shown = tuple(
        (r["version"], show_time(r["timestamp"]), r["operation"], r["rows"], r["files"], r["bytes"])
        for r in reversed(rows)
    )
    return html_table(Columns(names, shown))
