"""The columns that say of a row what happened to it, and when. Spec: INC-3."""

from __future__ import annotations

import pyarrow as pa

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

APPEND_COLUMNS = pa.schema(list(CHANGE_COLUMNS)[1:])
"""Of rows that are all inserts."""
