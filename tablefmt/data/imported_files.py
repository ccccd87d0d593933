"""Reads of imported files, whose columns have names of their own, perhaps in another folder.

A run of files with one layout is read as any files, under a schema with the names of these files.
Conditions are pushed into the scan under these names, and applied to the rows under the table's.

Spec: DAT-4, DAT-8, IMP-1 .. IMP-4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.arrow_scanner import is_known
from tablefmt.data.file_verification import MISSING
from tablefmt.data.matching_rows import RowFilter
from tablefmt.errors import CorruptDataError
from tablefmt.model.import_layouts import LAYOUT, layout_of
from tablefmt.model.schema import Field, Schema, renamed_field

_LACKING = "\0lacking "
"""Prefix of the name of a column that files lack. No column of a file has it (SCH-2)."""


def has_imported(files: pa.Table) -> bool:
    """Return whether any of the files is imported."""
    return LAYOUT in files.column_names and files[LAYOUT].null_count < files.num_rows


@dataclass(frozen=True, slots=True, eq=False)
class FileRun:
    """Consecutive files with one layout."""

    start: int
    """Index of the first file among all files."""
    files: pa.Table
    """The files, without the column of layouts."""
    layout: str | None
    """Their layout; None: they are files of this table's writers."""

    @property
    def root(self) -> str:
        """Return the address of the folder of the files; "" for the table's own."""
        return "" if self.layout is None else layout_of(self.layout)[0]

    def schema_of(self, schema: Schema) -> Schema:
        """Return the schema of these files. Names are the physical names of the table.

        A partition column is known from the log, so it is not read (IMP-4).
        """
        names = {} if self.layout is None else layout_of(self.layout)[1]
        known = {f.id for f in schema.fields if is_known(self.files, f)}

        def physical(field: Field) -> str:
            name = names.get(field.id, field.physical)
            return f"{_LACKING}{field.id}" if name is None or field.id in known else name

        fields = tuple(renamed_field(field, physical) for field in schema.fields)
        return Schema(fields, schema.last_id)


def runs_of(files: pa.Table) -> Iterator[FileRun]:
    """Yield the files in runs of one layout, in order."""
    layouts = files[LAYOUT]
    plain = files.drop_columns([LAYOUT])
    coded = pc.dictionary_encode(layouts.cast(pa.string()).combine_chunks(), "encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    texts = coded.dictionary.to_pylist()
    for start, stop in itertools.pairwise(starts):
        yield FileRun(start, plain.slice(start, stop - start), texts[int(codes[start])])


def missing_in(root: str) -> str:
    """Return the problem of a file that is missing in the folder of another table."""
    return (
        f"{MISSING} in {root!r:.300}: the source table was vacuumed or dropped, or its files were "
        "moved"
    )


@contextmanager
def explain_missing(root: str) -> Iterator[None]:
    """Name the folder of another table if a file is missing there (CLN-4). `root` as in `FileRun`.

    Raises:
        CorruptDataError: DAT-5.
    """
    try:
        yield
    except CorruptDataError as error:
        if not root or error.detail != MISSING:
            raise
        raise CorruptDataError(
            missing_in(root),
            key=error.key,
            rule=error.rule,
            advice="Bring the file back, clone a version that the source still keeps, or replace "
            "the rows with overwrite.",
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class ImportedScan:
    """A scan of a run of imported files, in terms of the table's schema."""

    schema: Schema
    """Schema of the files."""
    columns: Sequence[Field]
    """Columns to read of the files: the requested ones, and those of the condition."""
    inner: RowFilter
    """Filter to push into the scan."""
    condition: RowFilter
    """The whole condition, over the table's physical names."""

    @classmethod
    def of(
        cls, run: FileRun, schema: Schema, columns: Sequence[Field], condition: RowFilter
    ) -> ImportedScan:
        """Return the scan of a run for a scan of the table."""
        looked = condition.columns
        ids = {column.id for column in columns}
        needed = [f for f in schema.fields if looked is None or f.physical in looked or f.id in ids]
        mapped = run.schema_of(schema)
        chosen = [mapped.by_id(f.id) for f in needed]
        return cls(mapped, chosen, condition.pushed_on(mapped), condition)

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the whole condition is true."""
        return self.condition.of_rows(rows)
