"""Reports that speak Arrow's stream protocol, so that pandas, polars and DuckDB take them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class ArrowReport:
    """The half of a report that other libraries read."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return the rows of the report."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows of the report as a stream, in a PyCapsule."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
