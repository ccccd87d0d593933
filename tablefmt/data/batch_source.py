"""Rows that somebody may ask for, in the forms in which Python's engines take them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from tablefmt.data.frames import to_pandas, to_polars
from tablefmt.errors import SchemaMismatchError


class BatchSource(ABC):
    """Rows of one schema as batches, which can be asked for again and again.

    Speaks the Arrow stream protocol: `pa.table(rows)`, `polars.DataFrame(rows)`, `FROM rows` in
    DuckDB. Who reads through the protocol gets an exception of its own for what goes wrong after
    the first batch, with our message in it; everything else raises ours.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Of every batch."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, from the first one on. Nothing is read before the first batch is asked for."""

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows as a stream. Nothing is read before the first batch is asked for, and not far
        ahead of a reader that is slow: some 128 MB of rows, or one row group. Any one thread at a
        time may read it; who has enough lets go of it.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **arguments: Any) -> Any:
        """All rows as a pandas frame; `arguments` go to pyarrow's to_pandas.

        Raises:
            UnsupportedFeatureError: pandas is not installed.
        """
        return to_pandas(self.to_arrow(), arguments)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame.

        Raises:
            UnsupportedFeatureError: polars is not installed.
        """
        return to_polars(self.to_arrow())

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows, by the Arrow PyCapsule protocol. The first batch is read at once, so that what
        can be refused is refused by an exception of ours.

        Args:
            requested_schema: a capsule with the same columns, to whose types values are cast.

        Raises:
            SchemaMismatchError: other columns are requested, or types that none are cast to.
        """
        if requested_schema is None:
            return self._begun().__arrow_c_stream__()
        requested = pa.schema(_SchemaCapsule(requested_schema))
        try:
            # On no rows first: nothing is read for what is refused.
            self.schema.empty_table().cast(requested)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaMismatchError(
                f"the rows cannot be had with the schema requested: {str(error).splitlines()[0]}"
            ) from None
        return self._begun().cast(requested).__arrow_c_stream__()

    def _begun(self) -> pa.RecordBatchReader:
        """The reader, once it has its first batch."""
        batches = self.to_batches()
        first = list(islice(batches, 1))
        return pa.RecordBatchReader.from_batches(self.schema, chain(first, batches))


class _SchemaCapsule:
    """What pyarrow takes a schema from."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> Any:
        return self._capsule
