"""Reports: the facts equal the log, the page shows them, and no text of a table becomes markup."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import CorruptTableError, InvalidArgumentError
from tablefmt.inspection.report_facts import report_facts
from tablefmt.inspection.report_page import (
    POINTS,
    SLOTS,
    WIDTH,
    _commits_by_time,
    _shown,
    report_page,
    size_text,
)
from tests.cli.conftest import run
from tests.tables import memory, rows

HOSTILE = '</td><script>alert("1")</script>\x1b[31m\u202e'


class Page(HTMLParser):
    """The tags, the text and the attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], "every element ends"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        if tag not in ("meta", "i", "rect", "line", "polyline", "polygon", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def table(tmp_path: Path) -> tablefmt.Table:
    """Return a table of three partitions with deletes, a compaction, a tag and a hostile name."""
    uri = str(tmp_path / "t")
    tablefmt.create(
        uri,
        pa.schema([("id", pa.int64()), ("region", pa.string()), (HOSTILE[:60], pa.string())]),
        partition_by=["region"],
        properties={"user.owner": HOSTILE},
    )
    table = tablefmt.open(uri)
    for number in range(6):
        ids = range(number * 10, number * 10 + 10)
        region = ["EU", HOSTILE, None]
        table.append(
            {"id": list(ids), "region": [region[i % 3] for i in ids], HOSTILE[:60]: ["x"] * 10}
        )
    table.delete("id in (3, 14, 25)")
    table.compact(where="region = 'EU'")
    table.alter.set_tag("q1", version=2)
    return table


def test_facts_are_those_of_the_table(table: tablefmt.Table) -> None:
    facts = report_facts(table.context)
    assert facts.problems == {}
    history = table.history().sort_by("version")
    assert facts.versions is not None
    for name in ("version", "operation"):
        assert facts.versions[name].to_pylist() == history[name].to_pylist()
    for each in facts.versions.to_pylist():
        scan = table.scan(version=each["version"])
        live = scan.files()
        assert each["rows"] == scan.to_arrow().num_rows
        assert (each["files"], each["bytes"]) == (live.num_rows, sum(live["size"].to_pylist()))
    files = table.scan().files().to_pylist()
    assert facts.files is not None
    assert facts.files.count == len(files)
    assert facts.files.rows == table.scan().to_arrow().num_rows == 57
    assert facts.files.deleted == sum(f["deleted"] for f in files)
    assert facts.files.with_deleted == sum(f["deleted"] > 0 for f in files)
    sizes = Counter(1 << (f["size"].bit_length() - 1) for f in files)
    assert dict(facts.files.by_size) == dict(sizes)
    partitions = table.scan().partitions().to_pylist()
    wanted = sorted((p["bytes"], p["files"], p["rows"]) for p in partitions)
    assert [(r[3], r[1], r[2]) for r in facts.files.largest.rows] == wanted[::-1]
    assert facts.tags is not None
    assert [row[:2] for row in facts.tags.rows] == [("q1", 2)]
    dry = table.vacuum()
    assert facts.retention is not None
    assert facts.retention["files that the next vacuum would remove"] == dry.files.num_rows
    assert facts.retention["objects below the table"] == dry.listed


def test_a_page_shows_them_and_runs_nothing(table: tablefmt.Table, tmp_path: Path) -> None:
    """SEC-1."""
    path = tmp_path / "report.html"
    page = table.report(path)
    assert path.read_text("utf-8") == page
    assert Page(table.report()).tags == Page(page).tags
    read = Page(page)
    assert read.tags["script"] == read.tags["img"] == read.tags["link"] == 0
    assert '<script>alert("1")</script>\\u001b[31m\\u202e' in read.text
    assert page.isprintable() or all(c.isprintable() or c == "\n" for c in page)
    for shown in (table.uri, table.id, "57", "COMPACT", "DELETE: 1", "WRITE: 6", "q1", "region"):
        assert shown in read.text, shown
    assert read.tags["polyline"] == 3


def test_the_command_writes_the_page(table: tablefmt.Table, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    found = run("report", table.uri, "-o", str(path), "--json").document
    assert found == {"path": str(path), "bytes": path.stat().st_size}
    assert run("report", table.uri, "-o", str(path)).out == f"{path}: {found['bytes']} bytes\n"
    assert run("report", table.uri).code == 2
    nowhere = run("report", table.uri, "-o", str(tmp_path / "none" / "r.html"))
    assert nowhere.code == 2
    assert nowhere.err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_an_error_of_ours(
    table: tablefmt.Table, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "none" / "r.html", "a\0b"):
        with pytest.raises(InvalidArgumentError, match="the report cannot be written"):
            table.report(path)


def test_a_table_without_rows_has_a_page() -> None:
    store = memory()
    table = tablefmt.create(store.uri, "id BIGINT")
    read = Page(table.report())
    assert "The table has no files." in read.text
    assert "No commit met a concurrent one." in read.text


@pytest.mark.slow
def test_two_thousand_columns_are_listed() -> None:
    names = [f"c{number}" for number in range(2000)]
    table = tablefmt.create(memory().uri, ", ".join(f"{name} INT" for name in names))
    shown = Page(table.report()).text.split()
    assert set(names) <= set(shown)
    assert "and 1,900 more columns" in Page(table._repr_html_()).text


@pytest.mark.broken_tables
def test_damage_in_one_part_leaves_the_others(table: tablefmt.Table) -> None:
    """The commits are not shown, and the page says why."""
    table.checkpoint()
    entry = Path(table.uri) / "_log" / f"{3:020d}.json"
    entry.write_bytes(entry.read_bytes().replace(b"WRITE", b"WRONG"))
    facts = report_facts(tablefmt.open(table.uri).context)
    assert "commits" in facts.problems
    assert facts.files is not None
    assert facts.files.rows == 57
    read = Page(report_page(facts))
    assert "commits could not be read" in read.text
    assert "3.json" in read.text
    assert f"tablefmt verify {table.uri}" in read.text


@pytest.mark.broken_tables
def test_damage_of_the_newest_version_is_an_error(table: tablefmt.Table) -> None:
    last = Path(table.uri) / "_log" / f"{table.version:020d}.json"
    last.write_bytes(b"{}")
    with pytest.raises(CorruptTableError):
        tablefmt.open(table.uri).report()


def test_a_line_keeps_its_peaks() -> None:
    """The first, the last, the highest and the lowest of many versions are drawn."""
    values = pa.array([5] * 50_000).to_numpy().copy()
    values[12_345], values[40_001] = 900, 0
    shown = _shown(values)
    assert {0, 12_345, 40_001, 49_999} <= set(shown)
    assert shown == sorted(set(shown))
    assert len(shown) <= 2 * POINTS + 2


def test_commits_of_the_first_and_of_the_last_time_are_at_the_ends() -> None:
    """TIM-1: a log may have them both."""
    times = [0, 253_402_300_799_999_998, 253_402_300_799_999_999]
    versions = pa.table({"timestamp": pa.array(times, pa.int64()), "operation": ["WRITE"] * 3})
    bars = re.findall(r'<rect x="([^"]+)"', _commits_by_time(versions))
    step = WIDTH / SLOTS
    assert bars == [f"{column * step + 1:.1f}" for column in (0, SLOTS - 1)]


def test_sizes_are_in_units_of_people() -> None:
    sizes = {0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 1 << 20: "1.0 MiB",
             300 << 30: "300 GiB", 5 << 50: "5.0 PiB"}  # fmt: skip
    assert {size: size_text(size) for size in sizes} == sizes


def test_a_notebook_shows_columns_and_commits(table: tablefmt.Table) -> None:
    """SEC-1. An older version shows its own columns and totals."""
    read = Page(table._repr_html_())
    assert read.tags["script"] == 0
    assert "57 rows" in read.text
    assert "SET TAG" in read.text
    table.append(rows(1).select([]).append_column("id", pa.array([99])))
    assert "58 rows" in Page(table._repr_html_()).text


@pytest.mark.soak
def test_a_browser_shows_it(table: tablefmt.Table, tmp_path: Path) -> None:
    """The text, as rendered, and a picture in both widths, light and dark."""
    browser = shutil.which("chromium")
    assert browser is not None, "install chromium"
    table.report(tmp_path / "r.html")
    base = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/u"]
    url = (tmp_path / "r.html").as_uri()
    done = subprocess.run([*base, "--dump-dom", url], capture_output=True, text=True, timeout=60)
    assert "Rows, files and bytes by version" in done.stdout
    for scheme, option in (("light", "1"), ("dark", "0")):
        for width in (400, 1280):
            picture = tmp_path / f"{scheme}{width}.png"
            subprocess.run(
                [
                    *base,
                    f"--blink-settings=preferredColorScheme={option}",
                    "--hide-scrollbars",
                    f"--window-size={width},1200",
                    f"--screenshot={picture}",
                    url,
                ],
                capture_output=True,
                timeout=60,
                check=True,
            )
            assert picture.stat().st_size > 20_000
            lines = pixels(picture.read_bytes())
            page = lines[0, 0]
            assert page.max() < 64 if scheme == "dark" else page.min() > 191, page
            # Nothing is wider than the page: the margin at its right is empty.
            assert (lines[:, -MARGIN:] == page).all()
            # The charts have their colours, and text stands out.
            shades = {tuple(each) for each in lines.reshape(-1, 3).tolist()}
            contrast = np.abs(lines.astype(int) - page.astype(int)).sum(axis=2)
            assert len(shades) > 30
            assert contrast.max() > 450


MARGIN = 8
"""Columns of pixels at the right of the page that hold nothing."""


def pixels(picture: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the lines of a PNG, each pixel as red, green and blue."""
    at, data, width, channels = 8, b"", 0, 3
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        body = picture[at + 8 : at + 8 + length]
        if picture[at + 4 : at + 8] == b"IHDR":
            width, channels = struct.unpack(">I", body[:4])[0], {2: 3, 6: 4}[body[9]]
        elif picture[at + 4 : at + 8] == b"IDAT":
            data += body
        at += length + 12
    stride = width * channels
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(-1, stride + 1)
    lines = np.zeros((len(raw) + 1, stride), np.uint8)
    for number, line in enumerate(raw):
        lines[number + 1] = unfiltered(int(line[0]), line[1:], lines[number], channels)
    return lines[1:].reshape(len(raw), width, channels)[:, :, :3]


def unfiltered(
    kind: int, line: np.ndarray[Any, Any], above: np.ndarray[Any, Any], step: int
) -> list[int]:
    """Return a line of a PNG without its filter."""
    found: list[int] = []
    over = above.tolist()
    for at, value in enumerate(line.tolist()):
        left = found[at - step] if at >= step else 0
        corner = over[at - step] if at >= step else 0
        up = over[at]
        if kind == 4:
            guess = left + up - corner
            nearest = (abs(guess - left), abs(guess - up), abs(guess - corner))
            guessed = (left, up, corner)[nearest.index(min(nearest))]
        else:
            guessed = (0, left, up, (left + up) // 2)[kind]
        found.append((value + guessed) & 255)
    return found
