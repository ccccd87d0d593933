"""A table of another format, as an importer finds it. Pure.

Files are columns: there is no object per file. Spec: IMP-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pyroaring import BitMap64

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.schema import Schema, Type

Format = Literal["parquet", "delta", "iceberg"]
FORMATS = get_args(Format)
"""Formats that can be imported."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Files of a table of another format, and what its metadata says about them."""

    format: str
    version: int | None
    """Version that the files belong to; None if the format has no versions."""
    paths: Sequence[str]
    """Paths relative to the source's folder, decoded."""
    sizes: Sequence[int]
    """Lengths in bytes."""
    rows: Sequence[int] = ()
    """Rows of each file by the source's metadata; empty: it need not say."""
    schema: Schema | None = None
    """Columns by the source's metadata; None: they follow from the files."""
    partition_by: Sequence[int] = ()
    """Ids of the partition columns, if there is a schema."""
    partition_names: Sequence[str] = ()
    """Names of the partition columns, if there is none."""
    partitions: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    """Partition values as text, by partition name, if there is no schema."""
    partition_types: Mapping[str, Type] = field(default_factory=dict)
    """Types that the caller gave for partition columns; others follow from the values."""
    values: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    """Partition values encoded by VAL-1, by field id, if there is a schema."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Partition transforms that the new table will not have, with the reason."""
    lost_values: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By path: ids of columns whose value in the file only the source's metadata may have."""
    deleted: Mapping[int, BitMap64] = field(default_factory=dict)
    """Deleted positions, by index of the file."""
    by_ids: bool = False
    """True if columns in files are found by field id, and not by name."""
    known_names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Names by field id of columns in files without field ids."""
    last_values: Mapping[str, int] = field(default_factory=dict)
    """The last values of identity columns that the source gave, by name."""
    changed: Callable[[], str | None] = lambda: None
    """Tells how the source changed since; None if it did not."""


def refused(what: str, feature: str, *, advice: str = "") -> UnsupportedFeatureError:
    """Return the error for a source that cannot be imported."""
    tail = f" {advice}" if advice else ""
    return UnsupportedFeatureError(f"the source cannot be imported: {what}.{tail}", [feature])
