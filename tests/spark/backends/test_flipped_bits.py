"""2,000 flipped bits of all that a table stores, read by both planes: right rows or an error."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.commit import driver
from tablefmt.errors import TablefmtError
from tests.spark.conftest import UseBackend

FLIPS = 400
"""Flips of each kind of object."""

KINDS = {
    "entry": "_log/0*.json",
    "checkpoint": "_log/checkpoints/**/*.*",
    "packed history": "_log/history/*",
    "vector": "deletes/*.parquet",
    "Parquet": "data/**/*.parquet",
}
"""Objects by kind, as patterns below the table."""

Rows = list[tuple[Any, ...]]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tablefmt.Table:
    """A table with an object of each kind, and rows of every width."""
    uri = tmp_path / "t"
    table = tablefmt.create(uri, "id BIGINT, name STRING, x DOUBLE, l ARRAY<INT>")

    def some(first: int, count: int) -> list[dict[str, Any]]:
        return [
            {"id": n, "name": f"n{n % 5}" if n % 3 else None, "x": n / 8, "l": [n, None][: n % 3]}
            for n in range(first, first + count)
        ]

    for number in range(14):
        table.append(some(number * 20, 20))
    monkeypatch.setattr(driver, "DELETES_ABOVE_BYTES", 1)
    table.delete("id % 7 = 3")
    table.append(some(1000, 30))
    table.checkpoint()
    table.append(some(2000, 30))
    table.delete("id = 2003 or id = 5")
    for kind, pattern in KINDS.items():
        assert list(uri.glob(pattern)), kind
    return table


def flipped(path: Path, chance: random.Random) -> bytes:
    """Flip one bit of a file. Return the bytes that it had."""
    body = path.read_bytes()
    changed = bytearray(body)
    changed[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(changed))
    return body


@pytest.mark.soak
def test_no_flipped_bit_is_silent_on_either_plane(
    spark: Any, use_backend: UseBackend, table: tablefmt.Table, first_seed: int
) -> None:
    """ENT-1, CKP-3, HIS-1, DEL-2, DAT-5: newest rows of both planes, and an older version."""
    use_backend("native")
    uri = Path(table.uri)
    old = 5

    def by_arrow(version: int | None) -> Rows:
        return ordered(tablefmt.open(uri).to_arrow(version=version).to_pylist())

    def by_spark() -> Rows:
        return ordered(
            [row.asDict() for row in spark.read.format("tablefmt").load(str(uri)).collect()]
        )

    right = {None: by_arrow(None), old: by_arrow(old)}
    assert by_spark() == right[None]
    reads: dict[str, tuple[Callable[[], Rows], Rows]] = {
        "Arrow": (lambda: by_arrow(None), right[None]),
        "Arrow, older": (lambda: by_arrow(old), right[old]),
        "Spark": (by_spark, right[None]),
    }
    chance = random.Random(first_seed)
    outcomes: Counter[tuple[str, str, str]] = Counter()
    silent = []
    for kind, pattern in KINDS.items():
        paths = sorted(path for path in uri.glob(pattern) if path.is_file())
        for number in range(FLIPS):
            path = chance.choice(paths)
            body = flipped(path, chance)
            for plane, (read, rows) in reads.items():
                try:
                    found = read()
                except TablefmtError:
                    outcomes[kind, plane, "error"] += 1
                    continue
                except Exception:
                    # Spark wraps the errors of its tasks.
                    if plane != "Spark":
                        raise
                    outcomes[kind, plane, "error"] += 1
                    continue
                outcomes[kind, plane, "right rows" if found == rows else "wrong rows"] += 1
                if found != rows:
                    silent.append((kind, plane, number, path.name))
            path.write_bytes(body)
        assert by_spark() == right[None]
        print(kind, *(f"{key[1:]}: {n}" for key, n in outcomes.items() if key[0] == kind))
    print(f"\nseed {first_seed}: {FLIPS * len(KINDS)} flipped bits, silent: {len(silent)}")
    for key, count in sorted(outcomes.items()):
        print(*key, count, sep=", ")
    assert silent == []
    assert outcomes["entry", "Arrow", "error"] > 0
    assert min(outcomes["Parquet", plane, "error"] for plane in ("Arrow", "Spark")) > FLIPS // 2


def ordered(rows: list[dict[str, Any]]) -> Rows:
    """Return rows as tuples, in one order."""
    return sorted(tuple(map(repr, row.values())) for row in rows)
