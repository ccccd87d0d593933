"""Results in the formats of Python's engines: Arrow streams, pandas and polars data frames.

Reports implement the Arrow C stream interface, for pandas, polars and DuckDB. Lazy row sources have
one base. Data frames need optional libraries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def to_pandas(rows: pa.Table, arguments: Mapping[str, Any]) -> pd.DataFrame:
    """Return a pandas DataFrame; `arguments` go to pyarrow's to_pandas.

    Raises:
        UnsupportedFeatureError: pandas is not installed, or Python has no date of a row's year.
    """
    try:
        frame: pd.DataFrame = rows.to_pandas(**arguments)
        return frame
    except ModuleNotFoundError as error:
        raise missing_extra("pandas", error) from None
    except (ValueError, OverflowError) as error:
        if "out of range" not in str(error) or arguments.get("date_as_object") is False:
            raise
        raise UnsupportedFeatureError(
            f"Python has no object for one of the dates ({error}); use "
            "to_pandas(date_as_object=False) of a scan or an Arrow table",
            ["pandas:date"],
        ) from None


def polars_frame(
    schema: pa.Schema, batches: Callable[[], Iterable[pa.RecordBatch]]
) -> pl.DataFrame:
    """Return a polars DataFrame. Columns with the same memory layout are not copied.

    Args:
        schema: the schema of the rows.
        batches: called after polars is imported. In a batch, text may have the type of views.

    Raises:
        UnsupportedFeatureError: polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise missing_extra("polars", error) from None
    alike = groupby(batches(), key=lambda batch: batch.schema)
    tables = [pa.Table.from_batches(list(some), shown) for shown, some in alike]
    frames = []
    for rows in tables or [schema.empty_table()]:
        frame = polars.from_arrow(rows, rechunk=False)
        assert isinstance(frame, polars.DataFrame)
        frames.append(frame)
    return frames[0] if len(frames) == 1 else polars.concat(frames, rechunk=False)


def missing_extra(extra: str, error: ModuleNotFoundError) -> UnsupportedFeatureError:
    """Return the error for a missing library. The extra has the library's name."""
    return UnsupportedFeatureError(
        f"{error.name or extra} is not installed. Run: pip install 'tablefmt[{extra}]'",
        [f"extra:{extra}"],
    )


class _HasRows(Protocol):
    def to_arrow(self) -> pa.Table: ...


class ArrowReport:
    """Base of reports that other libraries can read. Subclasses provide `to_arrow`."""

    __slots__ = ()

    def __arrow_c_stream__(self: _HasRows, requested_schema: Any = None) -> Any:
        """Return the rows of the report as an Arrow C stream, in a PyCapsule."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class BatchSource(ABC):
    """Rows of one schema as batches, which can be read repeatedly.

    Implements the Arrow C stream interface: `pa.table(rows)`, `polars.DataFrame(rows)`, `FROM rows`
    in DuckDB. A consumer of the stream raises its own exception for an error after the first batch,
    with our message in it. All other errors are ours.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every batch."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return all rows from the start. Reading begins with the first requested batch."""

    def to_reader(self) -> pa.RecordBatchReader:
        """Return all rows as a stream. Reading begins with the first requested batch.

        It reads about 128 MB of rows, or one row group, ahead of a slow consumer. Only one thread
        at a time may read it. Drop the reader to stop early.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **arguments: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; `arguments` go to pyarrow's to_pandas.

        Raises:
            UnsupportedFeatureError: pandas is not installed.
        """
        return to_pandas(self.to_arrow(), arguments)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars DataFrame.

        Raises:
            UnsupportedFeatureError: polars is not installed.
        """
        return polars_frame(self.schema, self.to_batches)

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return all rows by the Arrow PyCapsule protocol.

        The first batch is read at once, so that early errors are raised as our exceptions.

        Args:
            requested_schema: a capsule with the same columns; values are cast to its types.

        Raises:
            SchemaMismatchError: other columns are requested, or a type that values cannot be cast
                to.
        """
        if requested_schema is None:
            return self._begun().__arrow_c_stream__()
        requested = pa.schema(_SchemaCapsule(requested_schema))
        try:
            # Cast an empty table first, so a refused schema reads nothing.
            self.schema.empty_table().cast(requested)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaMismatchError(
                f"cannot cast the rows to the requested schema: {str(error).splitlines()[0]}"
            ) from None
        return self._begun().cast(requested).__arrow_c_stream__()

    def _begun(self) -> pa.RecordBatchReader:
        """Return the reader after its first batch is read."""
        batches = self.to_batches()
        first = list(islice(batches, 1))
        return pa.RecordBatchReader.from_batches(self.schema, chain(first, batches))


class _SchemaCapsule:
    """Adapter from which pyarrow imports a schema capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> Any:
        return self._capsule
