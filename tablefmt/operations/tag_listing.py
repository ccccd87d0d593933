"""The tags of a table, as Arrow rows."""

from __future__ import annotations

import pyarrow as pa

from tablefmt.model.log_entry import Metadata
from tablefmt.model.tags import tags_of

TAGS_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("retain_until", pa.timestamp("us", "UTC")),
        pa.field("can_be_read", pa.bool_(), nullable=False),
    ]
)
"""Columns of `Table.tags`. `retain_until` is NULL for a version that stays with its tag."""


def tag_rows(metadata: Metadata, oldest: int) -> pa.Table:
    """Return one row for each tag, in the order of names. Pure.

    Args:
        metadata: of the newest version.
        oldest: the earliest version that can be read.
    """
    rows = [
        {
            "name": name,
            "version": tag.version,
            "retain_until": tag.until,
            "can_be_read": tag.version >= oldest,
        }
        for name, tag in tags_of(metadata).items()
    ]
    return pa.Table.from_pylist(rows, TAGS_SCHEMA)
