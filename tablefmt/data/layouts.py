"""Facts about data files that other engines need before reading: verified footers, and columns.

Spec: ADD-7, DAT-4, DAT-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.checksum import End, read_ends
from tablefmt.data.damage import DAMAGE, check_file, check_masks, described, is_no_answer
from tablefmt.data.known_values import is_known
from tablefmt.errors import CorruptDataError, StoreError
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.defaults import default_array
from tablefmt.model.schema import Field
from tablefmt.store.protocol import Store

GROUP_FILES = 256
"""Files whose footer bytes are in memory at once."""

THREADS = 4
"""Footers decoded in parallel."""

_File = tuple[str, int, int, int | None]  # evaluated at run time in 3.10
"""Path, size, rows, and the checksum of the footer if the log has it."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeFiles:
    """Files that a reader can treat alike."""

    files: pa.Table
    """The log's columns of the files."""
    columns: pa.Schema
    """The columns of the files, with physical names."""
    known: dict[int, pa.Scalar]
    """Values, or NULL, that the log has for columns that the files lack, by field id (DAT-8)."""

    def lacked(self, column: Field) -> pa.Scalar:
        """Return the constant value of a column that these files lack: DAT-4, DAT-8, SCH-7."""
        if column.id in self.known:
            return self.known[column.id]
        if column.initial is None:
            return pa.scalar(None, arrow_type(column.type))
        return default_array(column.initial, column.type)[0]


KeepEnd = Callable[[str, int, bytes], None]
"""Receives the path and the length of a file, and its verified footer bytes."""


def alike_files(
    store: Store, files: pa.Table, columns: Sequence[Field], keep: KeepEnd | None = None
) -> list[AlikeFiles]:
    """Return the files grouped by their columns, with verified footer bytes.

    Args:
        store: the store with the files.
        files: `path`, `size`, `rows`, optionally `footer`, and the partition values.
        columns: the columns that will be read.
        keep: called with the footer bytes of every file.

    Raises:
        CorruptDataError: DAT-5, ADD-7: a file is missing, has another length or row count, or its
            footer bytes do not match the checksum.
        StoreError: the store gives no answer.
    """
    check_masks(files)
    layouts: dict[pa.Schema, int] = {}
    of_file = [layouts.setdefault(each, len(layouts)) for each in _schemas(store, files, keep)]
    groups = []
    for layout, number in layouts.items():
        same = files.filter(pa.array(np.array(of_file) == number))
        there = frozenset(layout.names)
        lacking = [c for c in columns if c.physical not in there and is_known(same, c)]
        groups += [AlikeFiles(part, layout, known) for part, known in _by_values(same, lacking)]
    return groups


def sorted_out(files: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the files without deleted rows, and the others."""
    if "vector" not in files.column_names:
        return files, files.slice(0, 0)
    whole = pc.is_null(files["vector"])
    return files.filter(whole), files.filter(pc.invert(whole))


def _schemas(store: Store, files: pa.Table, keep: KeepEnd | None) -> Iterator[pa.Schema]:
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, files.num_rows, GROUP_FILES):
            group = described(files.slice(start, GROUP_FILES))
            ends = _ends(store, group)
            bodies = [
                end.body if end is not None and end.is_sound(size, footer) else b""
                for end, (_, size, _, footer) in zip(ends, group, strict=True)
            ]
            layouts = pool.map(_layout, bodies, group)
            for schema, one, body in zip(layouts, group, bodies, strict=True):
                if schema is None:
                    raise _damage(store, one)
                if keep is not None:
                    keep(one[0], one[1], body)
                yield schema


def _ends(store: Store, group: Sequence[_File]) -> Sequence[End | None]:
    try:
        return read_ends(store, [(path, size) for path, size, _, _ in group])
    except StoreError as error:
        if is_no_answer(store, error):
            raise
        # One of the files is a link or a folder. Checking them one by one finds it.
        return [None] * len(group)


def _layout(body: bytes, file: _File) -> pa.Schema | None:
    """Return the columns by a footer; None if the footer is not that of the file."""
    try:
        footer = footer_of(body)
        if footer.num_rows != file[2]:
            return None
        return footer.schema.to_arrow_schema().remove_metadata()
    except DAMAGE:
        return None


def _damage(store: Store, file: _File) -> CorruptDataError:
    path, size, rows, footer = file
    try:
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
    except DAMAGE as error:
        if is_no_answer(store, error):
            raise
        problem = str(error)
    return CorruptDataError(problem or "it was damaged", key=path, rule="DAT-5")


def _by_values(
    files: pa.Table, lacking: Sequence[Field]
) -> Iterator[tuple[pa.Table, dict[int, pa.Scalar]]]:
    """Yield files with the log's values of the columns that they lack."""
    if not lacking:
        yield files, {}
        return
    field, rest = lacking[0], lacking[1:]
    values = files[f"partition.{field.id}"].combine_chunks()
    codes: NDArray[np.int64] = pc.dictionary_encode(values, "encode").indices.to_numpy()
    for code in np.unique(codes):
        same = np.flatnonzero(codes == code)
        for part, known in _by_values(files.take(pa.array(same)), rest):
            yield part, {field.id: values[int(same[0])], **known}
