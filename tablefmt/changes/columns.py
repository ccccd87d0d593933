"""Change columns: the kind, version and time of a row's change. Spec: INC-3."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.case_folding import folded
from tablefmt.model.given_names import OWN_PREFIX

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

APPEND_COLUMNS = pa.schema(list(CHANGE_COLUMNS)[1:])
"""Change columns of rows that are all inserts."""

KIND = f"{OWN_PREFIX}change_type"
"""Internal name for `_change_type` that no table column can have."""

KINDS = pa.schema([CHANGE_COLUMNS.field(0).with_name(KIND)])
"""Change columns that distinguish deletes from inserts only."""


def check_names(names: Iterable[str], marks: pa.Schema, advice: str) -> None:
    """Refuse table columns that have the name of a change column.

    Raises:
        SchemaMismatchError: it ends with the advice.
    """
    clash = [name for name in names if folded(name) in marks.names]
    if clash:
        raise SchemaMismatchError(
            f"the table's own columns {', '.join(map(repr, clash))} have the names of change "
            f"columns; {advice}",
            clash,
        )
