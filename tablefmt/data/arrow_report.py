"""Reports that implement the Arrow C stream interface, for pandas, polars and DuckDB."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa


class _HasRows(Protocol):
    def to_arrow(self) -> pa.Table: ...


class ArrowReport:
    """Base of reports that other libraries can read. Subclasses provide `to_arrow`."""

    __slots__ = ()

    def __arrow_c_stream__(self: _HasRows, requested_schema: Any = None) -> Any:
        """Return the rows of the report as an Arrow C stream, in a PyCapsule."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
