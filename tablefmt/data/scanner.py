"""How Arrow's scanner is asked: out of which memory, and which text it reads as codes.

Spec: DAT-4. A reader sees none of it: columns have the types of the schema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

POSITION = "\0position"
"""The last column of a batch, where it is asked for. No column of a table can be called so
(SCH-2)."""

READAHEAD = 2
"""Files: two keep all cores busy, and Arrow's own four take half as much memory again."""

CODED_BYTES = 2
"""Most bytes a value for which text is read as codes: those of a few thousand values."""

CODED_ROWS = 1 << 15
"""Fewer rows of a file are read sooner than somebody finds out how."""

_CODES = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
"""Encodings from which Arrow makes codes; it fails on others, whatever comes before them."""


def scanner(
    files: ds.Dataset,
    names: Sequence[str],
    pushed: pc.Expression | None = None,
    computed: Mapping[str, pc.Expression] | None = None,
    readahead: int = READAHEAD,
) -> ds.Scanner:
    """A scan of columns, and of expressions after them.

    Args:
        files: the files.
        names: of columns.
        pushed: rows for which it is true are kept; None: all.
        computed: more columns, by name.
        readahead: files that are decoded before their rows are asked for.
    """
    columns = {name: pc.field(name) for name in names}
    return files.scanner(
        columns={**columns, **(computed or {})},
        filter=pushed,
        fragment_readahead=readahead,
        memory_pool=_pool(),
    )


def coded_columns(footer: pq.FileMetaData, names: Collection[str]) -> list[str]:
    """Those columns of text that are best read as codes, because they have few values.

    Arrow puts text together value by value, which takes twice as long.

    Args:
        footer: of the file.
        names: of top-level columns of text that no condition looks at.
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
    """The same kind of dataset over other files."""
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def keep_rows(columns: Sequence[pa.Array], mask: pa.BooleanArray) -> list[pa.Array]:
    """The rows for which `mask` is true. Of a whole batch Arrow takes them by number, which takes
    twice as long."""
    pool = _pool()
    return [pc.filter(column, mask, memory_pool=pool) for column in columns]


def _pool() -> pa.MemoryPool:
    """The allocator of the C library instead of mimalloc, Arrow's default; or whichever is set.

    It gives what one batch needed to the next. Mimalloc asks the system for most of it anew, and
    zeroing that takes a fifth of a scan.
    """
    chosen = pa.default_memory_pool()
    return pa.system_memory_pool() if chosen.backend_name == "mimalloc" else chosen
