"""Tables in DuckDB: `pip install 'tablefmt[sql]'`. DuckDB's own reader reads the live files.

What a table was at one version is what is read, however it moves on. Before a relation or view is
made, every live file is looked at: it is there, has the length and the number of rows of the log,
and its footer is the one that was written (DAT-5, ADD-7). DuckDB does not verify the checksums of
pages: what is damaged there may come out as other values. `Table.scan` and `verify(deep=True)` do.

A row that is gone is left out by its position in the file. DuckDB may evaluate a condition of the
query before that: one that fails on such a row fails the query (write TRY_CAST for CAST).

A relation reads files of a local disk as DuckDB reads any, and those of other stores by ranges
through the store of the table; credentials are in no text.
"""

from __future__ import annotations

from tablefmt.engines.duckdb_tables import attach, relation

__all__ = ["attach", "relation"]
