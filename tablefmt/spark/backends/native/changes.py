"""Row changes as a DataFrame: files with the change columns as columns of their group."""

from __future__ import annotations

import json
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.read import Changes
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.schema import Schema
from tablefmt.spark.backends.native.groups import Groups, partition_groups
from tablefmt.spark.backends.native.relation import Files, to_dataframe
from tablefmt.spark.runtime.frames import DataFrame, Session

NO_FILES = pa.schema(
    [("path", pa.string()), *((name, pa.int64()) for name in ("size", "rows", "deleted", "id"))]
).empty_table()
"""What `FileChanges.files` has at least."""


def read_changes(spark: Session, changes: Changes) -> DataFrame:
    """The rows of a range; as of `Backend`. A condition on the change columns leaves out commits.

    Spec: INC-3, INC-4.
    """
    store = changes.view.store
    identity = (
        f"{store.identity}#{changes.view.head.table}"
        f"@changes {changes.first_version}..{changes.last_version}"
    )
    # A file has values of the columns that it was partitioned by, and of no others.
    alike: dict[frozenset[int], list[FileChanges]] = {}
    for change in changes.file_changes:
        alike.setdefault(change.partition_ids, []).append(change)
    frames = [
        to_dataframe(spark, store, _files(f"{identity} {n}", changes.table_schema, each))
        for n, each in enumerate(alike.values() or [[]])
    ]
    return reduce(lambda whole, part: whole.unionAll(part), frames)


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
    lines = [f"{change.change}\t{change.version}\t{change.timestamp}" for change in alike]
    described = to_spark_json(from_arrow(CHANGE_COLUMNS))
    of_file = pa.array(np.repeat(np.arange(len(alike)), counts))
    if partitions is None:
        return Groups(json.dumps(described), "\n".join(lines), of_file)
    described["fields"] = json.loads(partitions.columns)["fields"] + described["fields"]
    values = pa.array(partitions.values.split("\n"), pa.string()).take(partitions.of_file)
    whole = pc.binary_join_element_wise(values, pa.array(lines, pa.string()).take(of_file), "\t")
    groups = whole.dictionary_encode()
    return Groups(json.dumps(described), "\n".join(groups.dictionary.to_pylist()), groups.indices)
