"""Rows of live files together with where they are: what changes of single rows are made of.

Spec: DEL-1, DEL-4.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.case_folding import folded
from tablefmt.model.schema import Field, Schema
from tablefmt.spark.backends.base import FILE, ROW
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.runtime.frames import DataFrame, Session
from tablefmt.store.protocol import Store


def with_positions(
    spark: Session,
    store: Store,
    files: pa.Table,
    schema: Schema,
    partition_ids: frozenset[int],
    *,
    columns: Sequence[Field] | None = None,
    version: int | None = None,
) -> DataFrame:
    """The rows that files still have as a DataFrame, each with FILE and ROW as its last columns.

    A condition on the DataFrame leaves out whole files, as in `tablefmt.spark.read`; where Spark
    itself reads the files, a column that nobody asks for is not read.

    Args:
        spark: a session, classic or Connect.
        store: where the files are.
        files: live files of one version, with the snapshot's columns; `vector` as
            `Snapshot.with_vectors` gives it.
        schema: the version's.
        partition_ids: its partition columns.
        columns: those to read; None: all.
        version: shown in plans.

    Raises:
        SchemaMismatchError: a column of the table is called as one of the two.
        UnsupportedFeatureError: no backend reaches the store.
    """
    taken = [f.name for f in schema.fields if folded(f.name) in (FILE, ROW)]
    if taken:
        raise SchemaMismatchError(
            f"the column {taken[0]!r} has a name that changes of rows need; rename it", taken
        )
    read = schema if columns is None else Schema(tuple(columns), schema.last_id)
    backend = backend_for(spark, store)
    return backend.read_positions(files, schema, read, partition_ids, version)
