"""Files made of stored pages: Arrow reads the rows of the row groups that the pages come from."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.data.page_files import StoredChunk, is_known_form, page_file
from tablefmt.log.bounded_parquet import chunk_extent, columns_of, pages_between


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd"])
def test_row_groups_of_some_columns_make_a_file(codec: str) -> None:
    rows = pa.table(
        {
            "id": range(1000),
            "few": [None if at % 5 == 0 else at % 3 for at in range(1000)],
            "a.b": [f"text {at}" for at in range(1000)],
        }
    )
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, row_group_size=300, compression=codec, write_page_checksum=True)
    source = io.BytesIO(out.getvalue())
    leaves, footer = columns_of(source), pq.read_metadata(source)
    groups = []
    for group in map(footer.row_group, (3, 1)):
        chunks = []
        for place in (2, 1):
            described = group.column(place)
            assert is_known_form(described)
            start, stop = chunk_extent(described)
            pages = list(pages_between(source, start, stop))
            source.seek(start)
            halves = source.read(stop - start - 9), source.read(9)
            chunks.append(StoredChunk(leaves[place], described, pages, halves))
        groups.append((group.num_rows, chunks))
    made = pq.ParquetFile(pa.BufferReader(page_file(groups)), page_checksum_verification=True)
    chosen = pa.concat_tables([rows.slice(900), rows.slice(300, 300)]).select(["a.b", "few"])
    assert made.read().equals(chosen)
    assert made.read_row_group(1).equals(chosen.slice(100))


def test_lz4_has_two_numbers_and_is_not_restated() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(9)}), out, compression="lz4")
    footer = pq.ParquetFile(pa.BufferReader(out.getvalue())).metadata
    assert not is_known_form(footer.row_group(0).column(0))
