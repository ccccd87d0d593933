"""Layouts of imported files: a column of texts that readers of files understand. Pure.

The log has the number of the import of each file, and the metadata describes the imports. Readers
of files get both as one column, so they need no metadata. Spec: IMP-1, IMP-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import Import

NUMBER = "import"
"""Column with the number of the import of each file, or NULL."""

LAYOUT = "imported"
"""Column with the layout of each imported file as text, or NULL."""


def with_layouts(files: pa.Table, imports: Mapping[int, Import]) -> pa.Table:
    """Return the files with the column LAYOUT if a file is imported.

    Args:
        files: perhaps with the column NUMBER.
        imports: of the version whose files these are.

    Raises:
        CorruptEntryError: IMP-1, the metadata lacks the import of a file.
    """
    if NUMBER not in files.column_names or files[NUMBER].null_count == files.num_rows:
        return files
    numbers = files[NUMBER].combine_chunks()
    coded = pc.dictionary_encode(numbers)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    known = coded.dictionary.to_pylist()
    lost = [number for number in known if number not in imports]
    if lost:
        raise CorruptEntryError(f"no metadata describes the import {lost[0]}", rule="IMP-1")
    texts = pa.array([layout_text(imports[number]) for number in known], pa.string())
    layouts = pa.DictionaryArray.from_arrays(coded.indices, texts)
    return files.append_column(LAYOUT, layouts)


def layout_text(each: Import) -> str:
    """Return the layout of an import as text."""
    names = {str(field_id): name for field_id, name in each.names.items()}
    document = {"names": names, "root": each.root}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


@lru_cache(maxsize=256)
def layout_of(text: str) -> tuple[str, Mapping[int, str | None]]:
    """Return root and names of a layout."""
    document = orjson.loads(text)
    return document["root"], {int(field_id): n for field_id, n in document["names"].items()}


def has_own_names(files: pa.Table) -> bool:
    """Return whether any of the files has names of its own, or is outside the table's folder."""
    texts = pc.unique(files[LAYOUT]).to_pylist() if LAYOUT in files.column_names else []
    return any(text is not None and layout_of(text) != ("", {}) for text in texts)
