"""delta-rs' QueryBuilder: SQL of DuckDB over tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from tablefmt.compat.deltalake.deltalake_names import NAMES
from tablefmt.compat.translation import Translated, translated
from tablefmt.engines.duckdb_tables import attach, connect

if TYPE_CHECKING:
    from tablefmt.compat.deltalake.deltalake_table import DeltaTable


class QueryBuilder(Translated):
    """Runs SQL over tables, each under a name. The SQL is DuckDB's."""

    _names, _called = NAMES, "QueryBuilder"

    @translated(NAMES, "QueryBuilder")
    def __init__(self, session_config: Mapping[str, str] | None = None) -> None:
        self._connection = connect()

    @translated(NAMES, "QueryBuilder.register")
    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Give the version that a table reads a name."""
        attach(
            self._connection, table_name, delta_table.table.refresh(), version=delta_table.version()
        )
        return self

    @translated(NAMES, "QueryBuilder.execute")
    def execute(self, sql: str) -> pa.RecordBatchReader:
        """Return the rows of a query as a stream."""
        reader: pa.RecordBatchReader = self._connection.sql(sql).to_arrow_reader()
        return reader
