"""Row changes as a DataFrame: files with the change columns as columns of their group."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tablefmt.changes.plan import CHANGE_COLUMNS, NO_FILES, FileChanges
from tablefmt.changes.read import Changes
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.spark.backends.native.groups import Groups
from tablefmt.spark.backends.native.relation import Files, to_dataframe
from tablefmt.spark.runtime.frames import DataFrame, Session


def read_changes(spark: Session, changes: Changes) -> DataFrame:
    """The rows of a range; as of `Backend`. A condition on the change columns leaves out commits.

    Spec: INC-3, INC-4.
    """
    store = changes.view.store
    file_changes = changes.file_changes
    tables = [change.files for change in file_changes] or [NO_FILES]
    files = Files(
        identity=(
            f"{store.identity}#{changes.view.head.table}"
            f"@changes {changes.first_version}..{changes.last_version}"
        ),
        columns=pa.concat_tables(tables, promote_options="default"),
        schema=changes.table_schema,
        # A file that came under another partitioning has no value of what is not in both.
        partition_ids=changes.partition_ids.intersection(
            *map(changes.partitioned_by, file_changes)
        ),
        groups=_groups(file_changes),
    )
    return to_dataframe(spark, store, files)


def _groups(file_changes: list[FileChanges]) -> Groups:
    counts = [change.files.num_rows for change in file_changes]
    lines = [f"{change.change}\t{change.version}\t{change.timestamp}" for change in file_changes]
    return Groups(
        columns=json.dumps(to_spark_json(from_arrow(CHANGE_COLUMNS))),
        values="\n".join(lines),
        of_file=pa.array(np.repeat(np.arange(len(file_changes)), counts)),
    )
