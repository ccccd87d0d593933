"""Reports that speak Arrow's stream protocol, so that pandas, polars and DuckDB take them."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa


class _HasRows(Protocol):
    def to_arrow(self) -> pa.Table: ...


class ArrowReport:
    """The half of a report that other libraries read; `to_arrow` is the report's own."""

    __slots__ = ()

    def __arrow_c_stream__(self: _HasRows, requested_schema: Any = None) -> Any:
        """Return the rows of the report as a stream, in a PyCapsule."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
