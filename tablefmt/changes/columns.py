"""The columns that say of a row what happened to it, and when. Spec: INC-3."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.given_names import OWN_PREFIX

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

APPEND_COLUMNS = pa.schema(list(CHANGE_COLUMNS)[1:])
"""Of rows that are all inserts."""

KIND = f"{OWN_PREFIX}change_type"
"""`_change_type` under a name that no column of a table has, whatever those are called."""

KINDS = pa.schema([CHANGE_COLUMNS.field(0).with_name(KIND)])
"""Tells deletes from inserts, and nothing else."""


def check_names(names: Iterable[str], marks: pa.Schema, advice: str) -> None:
    """Refuse columns of a table that are called like those that rows get.

    Raises:
        SchemaMismatchError: it ends with the advice.
    """
    clash = [name for name in names if name.casefold() in marks.names]
    if clash:
        raise SchemaMismatchError(
            f"the table's own columns {', '.join(map(repr, clash))} are called like the change "
            f"columns; {advice}",
            clash,
        )
