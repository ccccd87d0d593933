"""The built site in a headless browser: texts, colours and widths, on wide and narrow screens."""

from __future__ import annotations

import functools
import html
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.inspection.test_report import pixels
from tests.places import ROOT

pytestmark = pytest.mark.soak

LOOKED_AT = {
    "index.html": (
        "What do you want to do?",
        "Write and read from PySpark",
        "write the data files",
    ),
    "guide/conflicts.html": ("Resolve a conflict error", "What each cell means", "may fail"),
    "reference/tables.html": ("tablefmt.create", "partition_by", "Raises:"),
}
"""Pages to look at, with texts that a reader sees. A picture has its words as its alternative."""

NARROW, WIDE = 375, 1280
"""Widths in pixels: a telephone and a laptop."""

MEASURE = """<script>
addEventListener("load", () => setTimeout(() => {
  const page = document.documentElement, wide = page.clientWidth;
  const scrolls = (e) => e && (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX)
    || scrolls(e.parentElement));
  const beyond = [...document.querySelectorAll("article *")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.right > wide + 1 && !scrolls(e.parentElement);
  });
  parent.postMessage({
    wide, scroll: page.scrollWidth, scheme: document.body.dataset.mdColorScheme,
    beyond: beyond.slice(0, 5).map((e) => e.outerHTML.slice(0, 80)),
    text: document.body.innerText + [...document.images].map((e) => e.alt).join(" "),
  }, "*");
}, 500));
</script>"""
"""Script in a page: it sends what a reader sees to the frame around the page."""

FRAME = """<!DOCTYPE html><body style="margin: 0">
<iframe src="{page}" style="border: 0; width: {width}px; height: 1200px"></iframe>
<script>addEventListener("message", (e) => {{
  document.documentElement.dataset.found = JSON.stringify(e.data);
}});</script>"""
"""A page around a page. A browser's window cannot be as narrow as a telephone."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the built site. Its pages measure themselves."""
    site = tmp_path_factory.mktemp("site")
    config = ROOT / "tools" / "docs" / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config)]
    subprocess.run(
        [*command, "-d", str(site)], check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    for name in LOOKED_AT:
        page = site / name
        page.write_text(page.read_text("utf-8").replace("</body>", f"{MEASURE}</body>"), "utf-8")
        for width in (NARROW, WIDE):
            frame = FRAME.format(page=page.name, width=width)
            page.with_name(f"{width}-{page.name}").write_text(frame, encoding="utf-8")
    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """A handler of files that logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def browse(folder: Path, scheme: str, width: int, *arguments: str) -> str:
    """Return the output of a headless browser that prefers a scheme, in a window of a width."""
    browser = shutil.which("chromium")
    assert browser is not None, "install chromium"
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"),
        f"--blink-settings=preferredColorScheme={1 if scheme == 'light' else 0}",
        *(f"--window-size={width},1200", "--virtual-time-budget=10000"),
    ]
    done = subprocess.run(
        [browser, *options, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", LOOKED_AT)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_page_is_readable(
    address: str, tmp_path: Path, page: str, scheme: str, width: int
) -> None:
    """Its texts show, nothing is wider than the screen, and the background has the scheme."""
    folder, _, name = page.rpartition("/")
    framed = "/".join(filter(None, (address, folder, f"{width}-{name}")))

    found = re.search(r'data-found="([^"]*)"', browse(tmp_path, scheme, 1400, "--dump-dom", framed))

    assert found is not None
    seen = json.loads(html.unescape(found[1]))
    assert [text for text in LOOKED_AT[page] if text not in seen["text"]] == []
    assert (seen["wide"], seen["scroll"], seen["beyond"]) == (seen["wide"], seen["wide"], [])
    assert width - 20 <= seen["wide"] <= width
    assert seen["scheme"] == {"light": "default", "dark": "slate"}[scheme]
    picture = tmp_path / "picture.png"
    browse(tmp_path, scheme, width, f"--screenshot={picture}", f"{address}/{page}")
    assert picture.stat().st_size > 20_000
    header = pixels(picture.read_bytes())[0, 0]
    assert header.tolist() == [0, 105, 92]  # teal
