"""Files made of stored pages: Arrow reads the rows of the row groups that the pages come from."""

from __future__ import annotations

import gc
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.log.bounded_parquet import chunk_extent, columns_of, pages_in
from tablefmt.log.page_files import (
    ChunkBody,
    FileMemory,
    StoredChunk,
    checked_chunks,
    known_form,
    page_file,
)


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
            form = known_form(leaves[place], described)
            assert form is not None
            start, stop = chunk_extent(described)
            source.seek(start)
            body = source.read(stop - start)
            bodies.append(ChunkBody(leaves[place], form, group.num_rows, body))
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
    [leaf] = columns_of(io.BytesIO(out.getvalue()))
    assert known_form(leaf, footer.row_group(0).column(0)) is None


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
    form = known_form(leaf, described)
    assert form is not None
    source.seek(start)
    whole = source.read(stop - start)
    pages = list(pages_in(whole))
    assert [page.is_dictionary for page in pages] == [True, False, False, False]
    (chunk,) = checked_chunks([ChunkBody(leaf, form, 300, whole)])
    dictionary = pages[0].header + pages[0].packed
    unpacked = sum(page.header + page.unpacked for page in pages)
    assert chunk == (leaf, form, dictionary, unpacked, [whole])
    for page in pages:
        for at in (page.start + page.header, page.start + page.header + page.packed - 1):
            changed = bytearray(whole)
            changed[at] ^= 4
            with pytest.raises(ValueError, match="does not match its checksum"):
                checked_chunks([ChunkBody(leaf, form, 300, bytes(changed))])
    for some, problem in (
        (whole[: pages[3].start], "different number of rows"),
        (whole + whole[pages[3].start :], "different number of rows"),
        (whole + whole[:dictionary], "second dictionary"),
        (whole[:-1], "exceeds its column chunk"),
    ):
        with pytest.raises(ValueError, match=problem):
            checked_chunks([ChunkBody(leaf, form, 300, some)])


def test_files_are_made_in_memory_of_earlier_ones() -> None:
    """A file with a reference keeps its bytes. Otherwise its memory is used again."""

    def chunks_of(rows: pa.Table) -> list[ChunkBody]:
        out = pa.BufferOutputStream()
        pq.write_table(rows, out, row_group_size=400, write_page_checksum=True)
        source = io.BytesIO(out.getvalue())
        leaves, footer = columns_of(source), pq.read_metadata(source)
        found = []
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for at, leaf in enumerate(leaves):
                start, stop = chunk_extent(group.column(at))
                form = known_form(leaf, group.column(at))
                assert form is not None
                source.seek(start)
                found.append(ChunkBody(leaf, form, group.num_rows, source.read(stop - start)))
        return found

    def made(memory: FileMemory, rows: pa.Table) -> bytes:
        bodies, width = chunks_of(rows), rows.num_columns
        taken = memory.take([len(b.body) for b in bodies], [b.leaf for b in bodies[:width]])
        for view, body in zip(taken, bodies, strict=True):
            view[:] = body.body
        there = [b._replace(body=view) for b, view in zip(bodies, taken, strict=True)]
        chunks = checked_chunks(there)
        groups: list[tuple[int, list[StoredChunk]]] = [
            (bodies[at].rows, chunks[at : at + width]) for at in range(0, len(chunks), width)
        ]
        return memory.file(groups)

    def read(body: bytes) -> pa.Table:
        return pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True).read()

    long = pa.table({"id": range(1000), "text": [f"text {at}" for at in range(1000)]})
    short = pa.table({"text": ["a", None, "b"], "id": [1, 2, 3]})
    wide = pa.table({f"column {at}": [at] for at in range(300)})
    memory = FileMemory()
    first = made(memory, long)
    second = made(memory, short)
    assert read(first).equals(long)
    assert read(second).equals(short)
    place = id(second)
    del second
    # Arrow's reader may be part of a cycle, and keep the file.
    gc.collect()
    third = made(memory, long.slice(10, 500))
    assert id(third) == place
    assert read(third).equals(long.slice(10, 500))
    assert read(made(memory, wide)).equals(wide)
    assert read(third).equals(long.slice(10, 500))


def test_a_footer_never_replaces_pages() -> None:
    """DAT-5: their checksums are compared before. A form may have any number of encodings."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(100)}), out, write_page_checksum=True)
    source = io.BytesIO(out.getvalue())
    (leaf,), chunk = columns_of(source), pq.read_metadata(source).row_group(0).column(0)
    start, stop = chunk_extent(chunk)
    form = known_form(leaf, chunk)
    assert form is not None
    memory = FileMemory()
    (view,) = memory.take([stop - start], [leaf])
    view[:] = source.getvalue()[start:stop]
    chunks = checked_chunks([ChunkBody(leaf, form + form * 100, 100, view)])
    with pytest.raises(ValueError, match="too long"):
        memory.file([(100, chunks)])
