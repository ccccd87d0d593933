"""Row changes as a DataFrame: files with the change columns as columns of their group."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.schema import schema_of_files
from tablefmt.changes.shared_files import (
    Uses,
    first_uses,
    masks_of,
    only_rows,
    rows_of_change,
    shared_files,
    turns_of,
)
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.schema import Schema
from tablefmt.spark.backends.base import FILE, ChangeRange
from tablefmt.spark.backends.native.groups import Groups, partition_groups, single_groups
from tablefmt.spark.backends.native.relation import POSITION, Files, to_dataframe
from tablefmt.spark.runtime.frames import DataFrame, Session, functions_of
from tablefmt.store.protocol import Store

JOINED_ROWS = 1 << 20
"""Rows whose positions are joined to a scan. With more, a file is scanned for every commit that
took rows out of it."""

_KEY = "__tablefmt_place"
_FILE_BITS = 40
"""Of the number of a row's file in its key; below is the position."""

_numbers = itertools.count(1)

NO_FILES = pa.schema(
    [("path", pa.string()), *((name, pa.int64()) for name in ("size", "rows", "deleted", "id"))]
).empty_table()
"""What `FileChanges.files` has at least."""


def read_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Rows of a range; as of `Backend`. A condition on the change columns leaves out commits.

    Spec: INC-3, INC-4.
    """
    identity = f"{store.identity}#{of.table}@changes {of.first}..{of.last} {next(_numbers)}"
    # A file has values of the columns that it was partitioned by, and of no others.
    alike: dict[tuple[frozenset[int], frozenset[int]], list[FileChanges]] = {}
    for change in files:
        alike.setdefault((change.partition_ids, change.lost), []).append(change)
    frames = []
    for n, each in enumerate(alike.values() or [[]]):
        schema = schema_of_files(of.schema, each[0].lost if each else frozenset())
        shared = shared_files(each, JOINED_ROWS, rows_of_change)
        masks = masks_of(each, shared)
        apart = [
            replace(change, files=change.files.filter(pa.array(~masks[at])))
            if at in masks
            else change
            for at, change in enumerate(each)
        ]
        left = [change for change in apart if change.files.num_rows]
        if left or not shared:
            scanned = _files(f"{identity} {n}", schema, left)
            frames.append(to_dataframe(spark, store, scanned))
        if shared:
            scanned, places = _shared(f"{identity} {n} shared", schema, each, shared)
            frames.append(_joined(spark, store, scanned, places))
    return reduce(lambda whole, part: whole.unionAll(part), frames)


def _shared(
    identity: str, schema: Schema, each: Sequence[FileChanges], shared: Mapping[int, Uses]
) -> tuple[Files, pa.Table]:
    """Files out of which several commits took rows, and the change columns of these by _KEY."""
    turns = [turns_of(each, uses) for _, uses in sorted(shared.items())]
    columns = only_rows(first_uses(each, shared), [positions for positions, _ in turns])
    ids = each[0].partition_ids
    groups = single_groups(columns, schema, ids, FILE)
    scanned = Files(
        identity=identity,
        columns=columns,
        schema=schema,
        partition_ids=ids,
        groups=groups,
        positions=True,
    )
    keys = [(at << _FILE_BITS) | positions for at, (positions, _) in enumerate(turns)]
    of_change = np.concatenate([turn for _, turn in turns])
    marks = pa.Table.from_pylist(
        [dict(zip(CHANGE_COLUMNS.names, change.marks, strict=True)) for change in each],
        CHANGE_COLUMNS,
    ).take(pa.array(of_change))
    return scanned, marks.append_column(_KEY, pa.array(np.concatenate(keys)))


def _joined(spark: Session, store: Store, scanned: Files, places: pa.Table) -> DataFrame:
    """One scan, and a join by position."""
    functions = functions_of(spark)
    known = functions.broadcast(spark.createDataFrame(places))
    key = functions.expr(f"shiftleft(bigint({FILE}), {_FILE_BITS}) | {POSITION}")
    rows = to_dataframe(spark, store, scanned).withColumn(_KEY, key)
    names = [*(quote_name(f.name) for f in scanned.schema.fields), *CHANGE_COLUMNS.names]
    return rows.join(known, _KEY).select(*names)


def _files(identity: str, schema: Schema, alike: list[FileChanges]) -> Files:
    """Files of one partitioning, in groups by what happened to them and their partition values."""
    ids = alike[0].partition_ids if alike else frozenset()
    columns = pa.concat_tables(
        [change.files for change in alike] or [NO_FILES], promote_options="default"
    )
    return Files(
        identity=identity,
        columns=columns,
        schema=schema,
        partition_ids=ids,
        groups=_groups(alike, partition_groups(columns, schema, ids)),
    )


def _groups(alike: list[FileChanges], partitions: Groups | None) -> Groups:
    counts = [change.files.num_rows for change in alike]
    lines = ["\t".join(map(str, change.marks)) for change in alike]
    described = to_spark_json(from_arrow(CHANGE_COLUMNS))
    of_file = pa.array(np.repeat(np.arange(len(alike)), counts))
    if partitions is None:
        return Groups(json.dumps(described), "\n".join(lines), of_file)
    described["fields"] = json.loads(partitions.columns)["fields"] + described["fields"]
    values = pa.array(partitions.values.split("\n"), pa.string()).take(partitions.of_file)
    whole = pc.binary_join_element_wise(values, pa.array(lines, pa.string()).take(of_file), "\t")
    groups = whole.dictionary_encode()
    return Groups(json.dumps(described), "\n".join(groups.dictionary.to_pylist()), groups.indices)
