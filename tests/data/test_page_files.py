"""Files made of stored pages: Arrow reads the rows of the row groups that the pages come from."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.data.page_files import ChunkBody, checked_chunks, is_known_form, page_file
from tablefmt.log.bounded_parquet import chunk_extent, columns_of, pages_in


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
        bodies = []
        for place in (2, 1):
            described = group.column(place)
            assert is_known_form(described)
            start, stop = chunk_extent(described)
            source.seek(start)
            body = source.read(stop - start)
            bodies.append(ChunkBody(leaves[place], described, group.num_rows, body))
        halves = [
            chunk._replace(parts=[chunk.parts[0][:-9], chunk.parts[0][-9:]])
            for chunk in checked_chunks(bodies)
        ]
        groups.append((group.num_rows, halves))
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
    source.seek(start)
    whole = source.read(stop - start)
    pages = list(pages_in(whole))
    assert [page.is_dictionary for page in pages] == [True, False, False, False]
    (chunk,) = checked_chunks([ChunkBody(leaf, described, 300, whole)])
    dictionary = pages[0].header + pages[0].packed
    unpacked = sum(page.header + page.unpacked for page in pages)
    assert chunk == (leaf, described, dictionary, unpacked, [whole])
    for page in pages:
        for at in (page.start + page.header, page.start + page.header + page.packed - 1):
            changed = bytearray(whole)
            changed[at] ^= 4
            with pytest.raises(ValueError, match="does not match its checksum"):
                checked_chunks([ChunkBody(leaf, described, 300, bytes(changed))])
    for some, problem in (
        (whole[: pages[3].start], "different number of rows"),
        (whole + whole[pages[3].start :], "different number of rows"),
        (whole + whole[:dictionary], "second dictionary"),
        (whole[:-1], "exceeds its column chunk"),
    ):
        with pytest.raises(ValueError, match=problem):
            checked_chunks([ChunkBody(leaf, described, 300, some)])
