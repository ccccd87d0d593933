"""Tables in polars: `pip install 'tablefmt[polars]'`. Its own reader reads live files on a disk.

A scan reads the table at one version, even after later commits. Files are checked before they are
read. Each must exist, have the length and row count of the log, and have the footer that was
written (DAT-5, ADD-7). polars does not verify page checksums, so damaged pages may give wrong
values. `Table.scan` and `verify(deep=True)` verify them.

Deleted rows are filtered out by their position in the file. polars may evaluate a condition of the
query before that filter. If a condition fails on a deleted row, the query fails.

Files that are not on a disk come through Arrow, as in `Table.scan`. So do columns that polars would
read with other values or types.
"""

from __future__ import annotations

from tablefmt.data.arrow_results import missing_extra

try:
    from tablefmt.engines.polars_scan import scan
except ModuleNotFoundError as error:
    if error.name != "polars":
        raise
    raise missing_extra("polars", error) from None

__all__ = ["scan"]
