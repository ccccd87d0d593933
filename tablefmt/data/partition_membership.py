"""Rows of given partitions: a test of rows by the values of partition fields, hidden ones too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.data_writer import codes_of, comparable, partition_column
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.scalar_values import decode
from tablefmt.model.schema import Field

Mask = NDArray[np.bool_]


def partition_sources(metadata: Metadata) -> list[Field]:
    """Return the columns that decide the current partition of a row."""
    schema = metadata.schema
    ids = [f.id if f.transform is None else f.transform.source for f in metadata.partition_fields]
    return [schema.by_id(i) for i in dict.fromkeys(ids)]


def in_partitions(
    added: AddedFiles, metadata: Metadata
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Return a test for rows that belong to a partition of the files.

    Args:
        added: files of the current partitioning.
        metadata: the metadata that they were written under.

    Returns:
        A function of a batch with the columns of `partition_sources`, by physical name.
    """
    fields = metadata.partition_fields
    values = [decode(added.columns[f"partition.{f.id}"], f.type) for f in fields]
    known = [comparable(pa.chunked_array([v]), f) for v, f in zip(values, fields, strict=True)]

    def test(batch: pa.RecordBatch) -> pa.BooleanArray:
        rows = pa.Table.from_batches([batch])
        values = [partition_column(rows, field, metadata.schema) for field in fields]
        keys = [comparable(v, f) for v, f in zip(values, fields, strict=True)]
        return pa.array(_among(keys, known, batch.num_rows))

    return test


def _among(keys: Sequence[pa.Array], known: Sequence[pa.Array], rows: int) -> Mask:
    """Return a mask of the rows whose keys are among the known ones."""
    count = len(known[0])
    both = [pa.concat_arrays([k, v.cast(k.type)]) for k, v in zip(known, keys, strict=True)]
    codes = codes_of(both, count + rows)
    found: Mask = np.isin(codes[count:], codes[:count])
    return found
