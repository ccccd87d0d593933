"""Settings of Arrow's scanner: memory pool, and text columns to read as dictionary codes.

Spec: DAT-4. Results do not depend on them: columns have the types of the schema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

POSITION = "\0position"
"""Name of the last column of a batch with positions. No table column can have it (SCH-2)."""

READAHEAD = 2
"""Files decoded ahead. Two keep all cores busy; Arrow's default of four takes half as much memory
again.
"""

CODED_BYTES = 2
"""Text is read as codes if a value takes at most this many bytes, as with a few thousand distinct
values.
"""

CODED_ROWS = 1 << 15
"""Files with fewer rows are read faster without this analysis."""

_CODES = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
"""Encodings from which Arrow can make codes. It fails on others, even after these."""


def scanner(
    files: ds.Dataset,
    names: Sequence[str],
    pushed: pc.Expression | None = None,
    computed: Mapping[str, pc.Expression] | None = None,
    readahead: int = READAHEAD,
) -> ds.Scanner:
    """Return a scan of columns, followed by computed expressions.

    Args:
        files: the files.
        names: names of the columns.
        pushed: keep rows for which it is true; None: all.
        computed: additional columns, by name.
        readahead: files that are decoded ahead.
    """
    columns = {name: pc.field(name) for name in names}
    return files.scanner(
        columns={**columns, **(computed or {})},
        filter=pushed,
        fragment_readahead=readahead,
        memory_pool=_pool(),
    )


def coded_columns(footer: pq.FileMetaData, names: Collection[str]) -> list[str]:
    """Return the text columns that are best read as codes, because they have few distinct values.

    Arrow assembles text value by value, which takes twice as long.

    Args:
        footer: footer of the file.
        names: top-level text columns that no condition reads.
    """
    if not footer.num_row_groups:
        return []
    first = footer.row_group(0)
    few = [
        at
        for at in range(first.num_columns)
        if first.column(at).path_in_schema in names and _has_few_values(first.column(at))
    ]
    groups = [footer.row_group(at) for at in range(footer.num_row_groups if few else 0)]
    return [
        first.column(at).path_in_schema
        for at in few
        if all(_CODES.issuperset(group.column(at).encodings) for group in groups)
    ]


def _has_few_values(chunk: pq.ColumnChunkMetaData) -> bool:
    small = chunk.total_uncompressed_size <= CODED_BYTES * chunk.num_values
    return bool(small and chunk.has_dictionary_page)


def replace_fragments(
    dataset: ds.FileSystemDataset, fragments: Sequence[ds.ParquetFileFragment]
) -> ds.FileSystemDataset:
    """Return a dataset of the same kind over other files."""
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def keep_rows(columns: Sequence[pa.Array], mask: pa.BooleanArray) -> list[pa.Array]:
    """Return the rows for which `mask` is true.

    For a whole batch, Arrow would take the rows by index, which takes twice as long.
    """
    pool = _pool()
    return [pc.filter(column, mask, memory_pool=pool) for column in columns]


def _pool() -> pa.MemoryPool:
    """Return the C library's allocator instead of Arrow's default mimalloc, or the allocator set.

    It reuses the memory of one batch for the next. Mimalloc requests most of it from the system
    again, and zeroing takes a fifth of a scan.
    """
    chosen = pa.default_memory_pool()
    return pa.system_memory_pool() if chosen.backend_name == "mimalloc" else chosen
