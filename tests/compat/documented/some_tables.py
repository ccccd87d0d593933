"""Tables, files and times that documented operations are about."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

import tablefmt
from tests.compat.documented.operation import ORDERS

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.float64())])
FILES: Mapping[str, dict[str, Any]] = {
    "parquet": {"id": [1, 2, 3]},
    "parts/day=5": {"id": [1]},
    "parts/day=6": {"id": [2]},
}
"""Folders with a Parquet file each."""

_DATA = re.compile(r"""(?<=["'`/])/data(?=[/"'`])""")


def rows_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows of `orders`."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def make(folder: Path, namespace: str = "") -> tablefmt.Table:
    """Make the files, and the tables `orders` and `sales`, of versions 1 and 2. Return `orders`."""
    shutil.copytree(_pattern(namespace), folder, dirs_exist_ok=True)
    return tablefmt.open(str(folder / namespace / "orders"))


@cache
def _pattern(namespace: str) -> Path:
    """Return a folder with the files and the tables, from which others are copied."""
    folder = Path(tempfile.mkdtemp(prefix="documented-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, partition_by in (("orders", []), ("sales", ["region"])):
        place = folder / namespace / name
        place.parent.mkdir(exist_ok=True)
        table = tablefmt.create(str(place), SCHEMA, partition_by=partition_by)
        table.append(rows_of(ORDERS[:3]))
        # A time in milliseconds, rounded up or down, must be that of one version.
        time.sleep(0.002)
        table.append(rows_of(ORDERS[3:]))
    for name, rows in FILES.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table(rows), folder / name / "rows.parquet")
    return folder


def replaced(text: str, folder: Path, orders: tablefmt.Table, zone: str) -> str:
    """Return a text with places below `/data`, and the words for times of versions, replaced."""
    text = _DATA.sub(str(folder), text)
    for row in orders.history().to_pylist():
        at, version = row["timestamp"], row["version"]
        micros = round(at.timestamp() * 1_000_000)
        words = {
            "TIME": at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S.%f"),
            # Rounded up: the time of a commit is not before it.
            "MS": str(-(-micros // 1000)),
            # Rounded down: changes from then on have the commit.
            "MILLIS": str(micros // 1000),
            "SECONDS": str(-(-micros // 1_000_000)),
        }
        for word, value in words.items():
            text = text.replace(f"{word}_{version}", value)
    return text
