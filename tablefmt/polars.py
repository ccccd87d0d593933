"""Tables in polars: `pip install 'tablefmt[polars]'`. Its own reader reads live files of a disk.

What a table was at one version is what is read, however it moves on. Before files are read they are
looked at: each is there, has the length and the number of rows of the log, and its footer is the
one that was written (DAT-5, ADD-7). polars does not verify the checksums of pages: what is damaged
there may come out as other values. `Table.scan` and `verify(deep=True)` do.

A row that is gone is left out by its position in the file. polars may evaluate a condition of the
query before that: one that fails on such a row fails the query. Files that are on no disk, and
columns that polars would read otherwise than they are, come through Arrow as of `Table.scan`.
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
