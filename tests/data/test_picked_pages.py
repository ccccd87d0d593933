"""Pages picked from a row group: the rows are those of a reader that decodes all of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablefmt
from tablefmt.data import direct_reader
from tablefmt.data.picked_pages import WantedRows, picked_pages
from tablefmt.errors import CorruptDataError
from tablefmt.log.bounded_parquet import columns_of, open_checked
from tablefmt.log.page_files import flat_columns
from tests.scheduling import examples

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
PICKABLE = {"none", "snappy", "gzip", "brotli", "zstd"}
TEXTS = ["", "a", "bb", "é", "long " * 20]


def rows_of(chance: random.Random, count: int) -> pa.Table:
    """Return rows of every kind of column, with NULLs and names that look like paths."""

    def some(value: Any) -> list[Any]:
        return [None if chance.random() < 0.2 else value() for _ in range(count)]

    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "n": pa.array(some(lambda: chance.randrange(-(2**31), 2**31)), pa.int32()),
            "few": pa.array(some(lambda: chance.randrange(3)), pa.int64()),
            "x": pa.array(some(chance.random), pa.float64()),
            "yes": pa.array(some(lambda: chance.random() < 0.5), pa.bool_()),
            "a.b": pa.array(some(lambda: chance.choice(TEXTS)), pa.string()),
            "bytes": pa.array(some(lambda: chance.randbytes(chance.randrange(9))), pa.binary()),
            "money": pa.array(some(lambda: chance.randrange(10**6)), pa.int64()).cast(
                pa.decimal128(19, 0)
            ),
            "at": pa.array(
                some(lambda: chance.randrange(-(2**50), 2**50)), pa.timestamp("us", "UTC")
            ),
            "list": pa.array(some(lambda: [1] * chance.randrange(3)), pa.list_(pa.int32())),
            "struct": pa.array(some(lambda: {"in": 1}), pa.struct([("in", pa.int32())])),
        }
    )


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 400),
    group=st.sampled_from([50, 128, 1000]),
    page=st.sampled_from([1, 7, 30, 20_000]),
    codec=st.sampled_from(CODECS),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
)
def test_rows_equal_those_of_whole_row_groups(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    group: int,
    page: int,
    codec: str,
    version: str,
    dictionary: bool,
) -> None:
    """DAT-4: for pages of both versions, all codecs, with dictionaries and without."""
    chance = random.Random(seed)
    table = rows_of(chance, count)
    path = tmp_path_factory.mktemp("picked") / "f.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=group,
        data_page_size=1,
        write_batch_size=page,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        write_page_checksum=True,
    )
    with path.open("rb") as source:
        footer = open_checked(source).metadata
        leaves = columns_of(source)
        places = flat_columns(leaves)
        assert list(places) == [
            name for name in table.column_names if name not in ("list", "struct")
        ]
        pieces = [table.slice(start, group) for start in range(0, count, group)]
        wanted = []
        for index, here in enumerate(pieces):
            rows = np.array(
                sorted(chance.sample(range(here.num_rows), chance.randint(1, here.num_rows)))
            )
            wanted.append(WantedRows(source, footer.row_group(index), leaves, places, rows))
        groups = list(picked_pages(wanted, verified=chance.random() < 0.5))
        for here, some, found in zip(pieces, wanted, groups, strict=True):
            assert not found or codec in PICKABLE
            for picked in found:
                part = pq.ParquetFile(
                    pa.BufferReader(picked.file()), page_checksum_verification=True
                ).read()
                assert part.num_rows <= 0.7 * here.num_rows
                expected = here.select(picked.names).take(pa.array(some.rows))
                assert part.take(pa.array(picked.rows)).cast(expected.schema).equals(expected)


def test_few_pages_are_read_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DAT-5: one changed bit in a page that is picked is an error, and names the file."""
    monkeypatch.setattr("tablefmt.data.matching_rows.WINDOW_ROWS", 100)
    read: list[tuple[str, ...]] = []
    real = picked_pages

    def told(*given: Any, **named: Any) -> Any:
        for found in real(*given, **named):
            read.extend(picked.names for picked in found)
            yield found

    monkeypatch.setattr(direct_reader, "picked_pages", told)
    rows = pa.table({"id": range(100_000), "key": [at * 7919 % 100_003 for at in range(100_000)]})
    rows = rows.append_column("text", pa.array([f"text {at}" for at in range(100_000)]))
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    where = f"key = {70_000 * 7919 % 100_003}"
    assert table.to_arrow(where=where).to_pylist() == rows.slice(70_000, 1).to_pylist()
    assert sorted(name for names in read for name in names) == ["id", "key", "text"]
    (path,) = table.scan().files()["path"].to_pylist()
    file = tmp_path / "t" / path
    body = bytearray(file.read_bytes())
    footer = pq.read_metadata(file)
    chunk = footer.row_group(0).column(2)
    body[chunk.data_page_offset + chunk.total_compressed_size * 7 // 10] ^= 1
    file.write_bytes(body)
    with pytest.raises(CorruptDataError, match=path):
        table.to_arrow(where=where)
