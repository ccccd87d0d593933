"""2,000 flipped bits of all that a table stores, read by both backends: right rows or an error."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
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


Read = Callable[[], Rows]


def by_arrow(table: tablefmt.Table, version: int | None = None) -> Rows:
    return ordered(tablefmt.open(table.uri).to_arrow(version=version).to_pylist())


def soak(table: tablefmt.Table, seed: int, reads: dict[str, tuple[Read, Rows]]) -> None:
    """Flip bits of each kind of object, read the table after each, and print what came of it."""
    uri, chance = Path(table.uri), random.Random(seed)
    outcomes: Counter[tuple[str, str, str]] = Counter()
    silent = []
    for kind, pattern in KINDS.items():
        paths = sorted(path for path in uri.glob(pattern) if path.is_file())
        for number in range(FLIPS):
            path = chance.choice(paths)
            body = flipped(path, chance)
            for backend, (read, rows) in reads.items():
                found = read_or_error(read, backend)
                outcome = "error" if found is None else "right" if found == rows else "WRONG"
                outcomes[kind, backend, outcome] += 1
                if outcome == "WRONG":
                    silent.append((backend, number, path.name))
            path.write_bytes(body)
        for backend, (read, rows) in reads.items():
            assert read() == rows
            said = {name: outcomes[kind, backend, name] for name in ("error", "right", "WRONG")}
            print(f"{kind}, {backend}: {said}", flush=True)
    total = FLIPS * len(KINDS)
    print(f"seed {seed}: {total} flipped bits, each read {len(reads)} times; {len(silent)} silent")
    assert silent == []
    for backend in reads:
        if backend != "Arrow, older":
            # A native scan does not read every byte of a footer.
            assert outcomes["Parquet", backend, "error"] > FLIPS // 5
            assert outcomes["entry", backend, "error"] > 0


def read_or_error(read: Read, backend: str) -> Rows | None:
    """Return the rows; None if there was an error of the tree, or of a task of Spark."""
    try:
        return read()
    except TablefmtError:
        return None
    except Exception:
        if backend != "Spark":
            raise
        return None


@pytest.mark.soak
def test_no_flipped_bit_is_silent_in_arrow(table: tablefmt.Table, first_seed: int) -> None:
    """ENT-1, CKP-3, HIS-1, DEL-2, DAT-5: the newest version and an older one are read."""
    newest, old = by_arrow(table), by_arrow(table, 5)
    reads = {
        "Arrow": (lambda: by_arrow(table), newest),
        "Arrow, older": (lambda: by_arrow(table, 5), old),
    }
    soak(table, first_seed, reads)


def test_no_flipped_bit_of_what_readers_skip_is_sound(table: tablefmt.Table) -> None:
    """VFY-1: reads leave a damaged checkpoint or segment aside, and `verify` names it."""
    uri, chance = Path(table.uri), random.Random(1)
    for kind in ("checkpoint", "packed history"):
        for path in sorted(path for path in uri.glob(KINDS[kind]) if path.is_file()):
            body = flipped(path, chance)
            found = tablefmt.open(table.uri).verify(deep=True).findings
            assert path.relative_to(uri).as_posix() in str(found), kind
            path.write_bytes(body)
    assert tablefmt.open(table.uri).verify(deep=True).ok


@pytest.mark.soak
def test_no_flipped_bit_is_silent_in_spark(
    spark: Any, use_backend: UseBackend, table: tablefmt.Table, first_seed: int
) -> None:
    """ENT-1, CKP-3, HIS-1, DEL-2, DAT-5: files are read natively."""
    tablefmt.spark.register(spark)
    use_backend("native")
    numbers = itertools.count()

    def by_spark() -> Rows:
        # A session keeps what it read of an address, so each read has an address of its own.
        place = Path(f"{table.uri}-{next(numbers)}")
        shutil.copytree(table.uri, place)
        try:
            frame = spark.read.format("tablefmt").load(str(place))
            return ordered([row.asDict() for row in frame.collect()])
        finally:
            shutil.rmtree(place)

    soak(table, first_seed, {"Spark": (by_spark, by_arrow(table))})


def rows_where(place: Path, condition: str) -> Rows:
    """Return the rows that a condition selects, by Arrow."""
    return list(map(tuple, tablefmt.open(place).to_arrow(where=condition).to_pylist()))


@pytest.mark.soak
def test_flipped_bits_of_footers_show_no_wrong_row(
    spark: Any, use_backend: UseBackend, tmp_path: Path, first_seed: int
) -> None:
    """ADD-7: Arrow refuses each footer. Spark's reader trusts bounds in it, and may skip rows."""
    tablefmt.spark.register(spark)
    use_backend("native")
    uri, chance = tmp_path / "t", random.Random(first_seed)
    table = tablefmt.create(uri, "id BIGINT, name STRING, x DOUBLE")
    table.append([{"id": n, "name": f"n{n % 5}", "x": n / 8} for n in range(1000)])
    (path,) = uri.glob("data/**/*.parquet")
    body = path.read_bytes()
    footer = int.from_bytes(body[-8:-4], "little") + 8
    outcomes: Counter[str] = Counter()
    for number in range(FLIPS):
        changed = bytearray(body)
        changed[chance.randrange(len(body) - footer, len(body))] ^= 1 << chance.randrange(8)
        place = tmp_path / str(number)
        shutil.copytree(uri, place)
        (place / path.relative_to(uri)).write_bytes(changed)
        wanted = chance.choice((3, 500, 997))
        condition = f"id = {wanted}"
        assert read_or_error(partial(rows_where, place, condition), "Arrow") is None
        frame = spark.read.format("tablefmt").load(str(place)).where(condition)
        found = read_or_error(frame.collect, "Spark")
        right = [(wanted, f"n{wanted % 5}", wanted / 8)]
        assert found in (None, [], right), number
        outcomes["error" if found is None else "right" if found else "hidden"] += 1
        shutil.rmtree(place)
    print(f"seed {first_seed}: {FLIPS} flipped bits of a footer of {footer} bytes: {outcomes}")


def ordered(rows: list[dict[str, Any]]) -> Rows:
    """Return rows as tuples, in one order."""
    return sorted(tuple(map(repr, row.values())) for row in rows)
