"""Flipped bits in page headers, which no checksum covers: right rows, or an error that names the
file."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import polars_decoder
from tablefmt.errors import CorruptDataError
from tablefmt.log.bounded_parquet import chunk_extent, pages_between

COUNT = 300_000

QUERIES: dict[str, tuple[list[str] | None, str | None, int | None]] = {
    "all rows": (None, None, None),
    "two columns": (["id", "price"], None, None),
    "a filter": (["id", "price"], "k < 300", None),
    "a key of a sorted column": (None, "id = 150000", None),
    "a value of another column": (None, "k = 77", None),
    "most rows": (None, "k > 9000", None),
    "a limit": (None, None, 10),
    "a limit of a part of the first page": (None, None, 5_000),
}
"""Columns, condition, limit: a query for each way of reading."""


def rows_of(seed: int) -> pa.Table:
    """Return rows with dictionaries, plain texts, NULLs and numbers."""
    some = np.random.default_rng(seed)
    noise = some.integers(0, 1 << 62, COUNT)
    price = pa.array(some.integers(0, 1_000_000, COUNT)).cast(pa.decimal128(19, 0))
    return pa.table(
        {
            "id": np.arange(COUNT),
            "k": some.integers(0, 50_000, COUNT),
            "name": pa.array([f"name {n}" for n in some.integers(0, 7, COUNT)]),
            "note": pa.array([f"note {n}" for n in some.integers(0, 1 << 40, COUNT)]),
            "price": price.cast(pa.decimal128(12, 0)),
            "day": pa.array(some.integers(0, 3000, COUNT), pa.int32()).cast(pa.date32()),
            "noise": pa.array(noise, mask=noise % 9 == 0),
            "x": some.normal(size=COUNT),
        }
    )


def expected(rows: pa.Table, query: str) -> pa.Table:
    """Return what a query finds, by numpy."""
    columns, condition, limit = QUERIES[query]
    if condition is not None:
        name, operator, number = condition.split()
        values, other = rows[name].to_numpy(), int(number)
        kept = {"<": values < other, ">": values > other, "=": values == other}[operator]
        rows = rows.filter(pa.array(kept))
    return rows.slice(0, limit).select(columns or rows.column_names)


def headers(path: Path) -> list[tuple[Path, int, int]]:
    """Return the file, the first byte and the length of each page header of a file."""
    footer = pq.read_metadata(path)
    found = []
    with pa.OSFile(str(path)) as source:
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for chunk in map(group.column, range(footer.num_columns)):
                pages = pages_between(source, *chunk_extent(chunk))
                found += [(path, page.start, page.header) for page in pages]
    return found


@pytest.mark.slow
@pytest.mark.broken_tables
@pytest.mark.parametrize("flips", [5, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.parametrize("by_polars", [False, True])
def test_a_flipped_bit_of_a_page_header_is_an_error_or_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_seed: int, flips: int, by_polars: bool
) -> None:
    """DAT-5: each way of reading, with polars and without it."""
    if by_polars:
        pytest.importorskip("polars")
    else:
        monkeypatch.setattr(polars_decoder._LIBRARY, "lost", True)
    chance, rows = random.Random(first_seed), rows_of(first_seed)
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows.slice(0, 200_000))
    table.append(rows.slice(200_000))
    paths = [tmp_path / "t" / path for path in table.scan().files()["path"].to_pylist()]
    places = [place for path in paths for place in headers(path)]
    answers = {query: expected(rows, query) for query in QUERIES}
    outcomes: Counter[str] = Counter()

    def read(query: str) -> pa.Table:
        columns, condition, limit = QUERIES[query]
        return tablefmt.open(table.uri).to_arrow(columns=columns, where=condition, limit=limit)

    for query, answer in answers.items():
        assert read(query).equals(answer), query
    for _ in range(flips):
        path, start, length = chance.choice(places)
        body, at, bit = path.read_bytes(), start + chance.randrange(length), chance.randrange(8)
        changed = bytearray(body)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        for query, answer in answers.items():
            named = None
            try:
                outcome = "right" if read(query).equals(answer) else "WRONG"
            except CorruptDataError as error:
                outcome, named = "error", error.key
            outcomes[outcome] += 1
            assert outcome != "WRONG", (query, at - start, bit)
            assert named in (None, path.relative_to(tmp_path / "t").as_posix())
        path.write_bytes(body)
    print(f"seed {first_seed}: {dict(outcomes)}")
    # A few flips may all change nothing.
    assert outcomes["right"] > 0
    assert outcomes["error"] > 0 or flips < 100
