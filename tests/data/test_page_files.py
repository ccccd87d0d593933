"""Files made of stored pages: Arrow reads the rows of the row groups that the pages come from."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.data.page_files import StoredChunk, check_checksums, is_known_form, page_file
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


def test_checksums_are_those_of_the_stored_pages() -> None:
    """DAT-5: a changed bit of any page's bytes, a lost page and a page too many are noticed."""
    out = pa.BufferOutputStream()
    rows = pa.table({"few": [at % 7 for at in range(300)]})
    pq.write_table(
        rows,
        out,
        data_page_size=1,
        write_batch_size=100,
        write_page_checksum=True,
        compression="none",
    )
    source = io.BytesIO(out.getvalue())
    described, [leaf] = pq.read_metadata(source).row_group(0).column(0), columns_of(source)
    start, stop = chunk_extent(described)
    pages = list(pages_between(source, start, stop))
    assert [page.is_dictionary for page in pages] == [True, False, False, False]
    source.seek(start)
    cut = pages[1].start - start
    whole = source.read(stop - start)
    check_checksums(StoredChunk(leaf, described, pages, [whole[:cut], whole[cut:]]))
    for page in pages:
        for at in (page.start + page.header, page.start + page.header + page.packed - 1):
            changed = bytearray(whole)
            changed[at - start] ^= 4
            with pytest.raises(ValueError, match="does not match its checksum"):
                check_checksums(StoredChunk(leaf, described, pages, [bytes(changed)]))
    with pytest.raises(ValueError, match="more bytes than its pages"):
        check_checksums(StoredChunk(leaf, described, pages[:3], [whole]))
    with pytest.raises(ValueError, match="fewer bytes than its pages"):
        check_checksums(StoredChunk(leaf, described, pages, [whole[: pages[3].start - start]]))
