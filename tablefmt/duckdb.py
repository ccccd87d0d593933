"""Tables in DuckDB: `pip install 'tablefmt[sql]'`. DuckDB's own reader reads the live files.

A relation or view reads the table at one version, even after later commits. Every live file is
checked before it is made. The file must exist, have the length and row count of the log, and have
the footer that was written (DAT-5, ADD-7). DuckDB does not verify page checksums, so damaged pages
may give wrong values. `Table.scan` and `verify(deep=True)` verify them.

Deleted rows are filtered out by their position in the file. DuckDB may evaluate a condition of the
query before that filter. If a condition fails on a deleted row, the query fails (write TRY_CAST for
CAST).

DuckDB opens files on a local disk directly. It reads files of other stores as byte ranges through
the table's store. No SQL text contains credentials.
"""

from __future__ import annotations

from tablefmt.engines.duckdb_tables import attach, relation

__all__ = ["attach", "relation"]
