"""Rows of live files together with where they are: what changes of single rows are made of.

Spec: DEL-1, DEL-4.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.schema import Field, Schema
from tablefmt.spark.backends.arrow.plane import located_arrow
from tablefmt.spark.backends.choice import plane_for
from tablefmt.spark.backends.groups import single_groups
from tablefmt.spark.backends.native.relation import POSITION, Files, to_dataframe
from tablefmt.store.protocol import Store

FILE = "__tablefmt_file"
"""The place of a row's file among those given, from 0: an int."""

ROW = "__tablefmt_row"
"""The position of a row in its file, from 0: a long."""

PLACES = pa.schema([pa.field(FILE, pa.int32(), False), pa.field(ROW, pa.int64(), False)])

_numbers = itertools.count(1)


def located(
    spark: Any,
    store: Store,
    files: pa.Table,
    schema: Schema,
    partition_ids: frozenset[int],
    *,
    columns: Sequence[Field] | None = None,
    version: int | None = None,
) -> Any:
    """The rows that files still have as a DataFrame, each with FILE and ROW as its last columns.

    A condition on the DataFrame leaves out whole files, as in `tablefmt.spark.read`; on the native
    plane a column that nobody asks for is not read.

    Args:
        spark: a session, classic or Connect.
        store: where the files are.
        files: live files of one version, with the snapshot's columns; `vector` as
            `Snapshot.with_vectors` gives it.
        schema: the version's.
        partition_ids: its partition columns.
        columns: those wanted; None: all.
        version: shown in plans.

    Raises:
        SchemaMismatchError: a column of the table is called as one of the two.
        UnsupportedFeatureError: neither plane reaches the store.
    """
    wanted = Schema(tuple(schema.fields if columns is None else columns), schema.last_id)
    taken = [f.name for f in schema.fields if f.name.casefold() in (FILE, ROW)]
    if taken:
        raise SchemaMismatchError(
            f"the column {taken[0]!r} has a name that changes of rows need; rename it", taken
        )
    if plane_for(spark, store).kind == "arrow":
        return located_arrow(spark, store, files, schema, wanted, PLACES)
    number = next(_numbers)
    scanned = Files(
        # No two are the same, so that Spark never takes one for another.
        identity=f"{store.identity}#located {number}@{'' if version is None else version}",
        columns=files,
        schema=schema,
        partition_ids=partition_ids,
        groups=single_groups(files, schema, partition_ids, FILE),
        positions=True,
    )
    frame = to_dataframe(spark, store, scanned)
    names = [quote_name(f.name) for f in wanted.fields]
    return frame.selectExpr(*names, FILE, f"{POSITION} AS {ROW}")
