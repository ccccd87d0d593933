"""Row changes as a DataFrame: files with the change columns as columns of their group."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.changes.plan import CHANGE_COLUMNS, FileChanges
from tablefmt.changes.read import Changes
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.spark.backends.arrow.plane import changes_arrow
from tablefmt.spark.backends.choice import plane_for
from tablefmt.spark.backends.groups import Groups
from tablefmt.spark.backends.native.relation import Files, to_dataframe


def changes_dataframe(spark: Any, changes: Changes) -> Any:
    """The rows of a range, each with `_change_type`, `_commit_version`, `_commit_timestamp`.

    The same rows as `Changes.to_arrow`, in no order. A condition on the change columns leaves out
    whole commits. Spec: INC-3, INC-4.

    Raises:
        UnsupportedFeatureError: INC-4, or memory://.
    """
    snapshot, store = changes.snapshot, changes.view.store
    if plane_for(spark, store).kind == "arrow":
        return changes_arrow(spark, changes)
    found = changes.file_changes
    tables = [change.files for change in found] or [snapshot.files.slice(0, 0)]
    files = Files(
        identity=(
            f"{store.identity}#{snapshot.table_id}"
            f"@changes {changes.first_version}..{changes.last_version}"
        ),
        columns=pa.concat_tables(tables, promote_options="default"),
        schema=snapshot.schema,
        partition_ids=snapshot.partition_ids,
        groups=_groups(found),
    )
    return to_dataframe(spark, store, files)


def _groups(found: list[FileChanges]) -> Groups:
    counts = [change.files.num_rows for change in found]
    lines = [f"{change.change}\t{change.version}\t{change.timestamp}" for change in found]
    return Groups(
        columns=json.dumps(to_spark_json(from_arrow(CHANGE_COLUMNS))),
        values="\n".join(lines),
        of_file=pa.array(np.repeat(np.arange(len(found)), counts)),
    )
