"""What a handle on a table says of it, at the version that it reads. No request is made."""

from __future__ import annotations

import pyarrow as pa

from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.entry import Metadata
from tablefmt.session.context import TableContext


class Handle:
    """Where a table is, and its definition at one version."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    @property
    def uri(self) -> str:
        """Where the table is; holds no secret."""
        return self.context.store.uri

    @property
    def id(self) -> str:
        """The table's own id, 32 hex digits: stays when the table is moved."""
        return self.context.view.head.table

    @property
    def version(self) -> int:
        """The ID version that this handle reads."""
        return self.context.version

    @property
    def oldest_version(self) -> int:
        """The earliest ID version that can be read, as far as is known here (ENT-13)."""
        return self.context.view.head.totals.oldest

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow types; comments are b"comment" in the metadata of fields."""
        return to_arrow(self._metadata.schema)

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition columns, in order."""
        return self._metadata.partition_names

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that are set."""
        return dict(self._metadata.properties)

    @property
    def comment(self) -> str | None:
        """What people say of the table; None for nothing."""
        return self._metadata.comment

    @property
    def constraints(self) -> dict[str, str]:
        """The conditions of the CHECK constraints, by name."""
        return {name: each.condition for name, each in self._metadata.constraints.items()}

    @property
    def _metadata(self) -> Metadata:
        return self.context.view.metadata_at(self.version)
