"""Iceberg's procedures over tables of tablefmt: see `expressions.procedure_calls`.

Each returns the columns that Iceberg's documentation states. A snapshot id is a version number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.literals import in_session, text_sql
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.procedure_calls import REFUSED, ProcedureCall, sort_columns
from tablefmt.maintenance.vacuum import VacuumReport
from tablefmt.model.name_matching import folded
from tablefmt.model.times import from_micros, to_micros
from tablefmt.session.commit_result import Commit
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.delta_settings import may_break_transactions
from tablefmt.spark.entry.java_arguments import name_parts
from tablefmt.spark.entry.spark_table import SparkTable
from tablefmt.spark.pyspark_objects import DataFrame, Session

if TYPE_CHECKING:
    from tablefmt.spark.spark_options import RangeKeywords

Given = Mapping[str, Any]


def _numbers(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


_MOVED = _numbers("previous_snapshot_id", "current_snapshot_id")
_EXPIRED = _numbers(
    *(f"deleted_{kind}_files_count" for kind in ("data", "position_delete", "equality_delete")),
    *("deleted_manifest_files_count", "deleted_manifest_lists_count"),
    "deleted_statistics_files_count",
)
_REWRITTEN = pa.schema(
    [
        ("rewritten_data_files_count", pa.int32()),
        ("added_data_files_count", pa.int32()),
        ("rewritten_bytes_count", pa.int64()),
        ("failed_data_files_count", pa.int32()),
        ("removed_delete_files_count", pa.int32()),
    ]
)
_MANIFESTS = pa.schema(
    [("rewritten_manifests_count", pa.int32()), ("added_manifests_count", pa.int32())]
)
_DELETES = pa.schema(
    [
        ("rewritten_delete_files_count", pa.int32()),
        ("added_delete_files_count", pa.int32()),
        ("rewritten_bytes_count", pa.int64()),
        ("added_bytes_count", pa.int64()),
    ]
)
_ORPHANS = pa.schema([("orphan_file_location", pa.string())])
_COPIED = _numbers("imported_files_count")
_ANCESTORS = _numbers("snapshot_id", "timestamp")
_VIEW = pa.schema([("changelog_view", pa.string())])

_TUNING = frozenset(
    {
        *("max-concurrent-file-group-rewrites", "partial-progress.enabled", "rewrite-job-order"),
        *("partial-progress.max-commits", "partial-progress.max-failed-commits", "min-input-files"),
        *("use-starting-sequence-number", "min-file-size-bytes", "max-file-size-bytes"),
        *("max-file-group-size-bytes", "max-file-group-input-files", "delete-file-threshold"),
        *("delete-ratio-threshold", "remove-dangling-deletes", "compression-factor"),
        *("shuffle-partitions-per-file", "var-length-contribution", "max-output-size"),
    }
)
"""Options of rewrite_data_files that choose files and tasks. They cannot change a row."""


def refusal(name: str) -> UnsupportedFeatureError | None:
    """Return the error for a procedure without a counterpart."""
    if name not in REFUSED:
        return None
    return UnsupportedFeatureError(
        f"the procedure {name} is not supported on tablefmt tables; {REFUSED[name]}",
        [f"procedure:{name}"],
    )


def result_of(name: str) -> pa.Schema:
    """Return the columns that a procedure returns."""
    return _PROCEDURES[name][0]


def call(spark: Session, table: SparkTable, asked: ProcedureCall) -> pa.Table:
    """Run a procedure, and return its rows.

    Raises:
        InvalidArgumentError: an argument is missing.
        UnsupportedFeatureError: an argument without a counterpart.
        Other errors as the method that does the same.
    """
    schema, run = _PROCEDURES[asked.name]
    rows = run(spark, table, asked.arguments)
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([rows], schema)


def _needed(given: Given, name: str) -> Any:
    if name not in given:
        raise InvalidArgumentError(f"the argument {name} is missing")
    return given[name]


def _refuse(given: Given, instead: Mapping[str, str]) -> None:
    for name, text in instead.items():
        if given.get(name) not in (None, False):
            raise UnsupportedFeatureError(
                f"the argument {name} is not supported on tablefmt tables; {text}",
                [f"procedure:{name}"],
            )


def _moved(before: int, commit: Commit) -> dict[str, int]:
    return {"previous_snapshot_id": before, "current_snapshot_id": commit.version}


def _to_snapshot(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    return _moved(table.table.version, table.restore(_needed(given, "snapshot_id")))


def _to_timestamp(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    commit = table.restore(timestamp=str(_needed(given, "timestamp")))
    return _moved(table.table.version, commit)


def _set_current(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    if ("snapshot_id" in given) == ("ref" in given):
        raise InvalidArgumentError("give exactly one of snapshot_id and ref")
    before = table.table.version
    return _moved(before, table.restore(given.get("snapshot_id", given.get("ref"))))


def _vacuumed(spark: Session, table: SparkTable, given: Given, dry_run: bool) -> VacuumReport:
    retention = None
    if "older_than" in given:
        then = to_micros(in_session(str(given["older_than"]), session_zone(spark)))
        retention = max((to_micros(datetime.now(timezone.utc)) - then) / 1_000_000, 0)
    try:
        return table.vacuum(
            retention=retention,
            dry_run=dry_run,
            breaks_running_transactions=may_break_transactions(spark),
        )
    except InvalidRangeError as error:
        raise InvalidRangeError(
            f"older_than is {given.get('older_than')}: {error}".replace(
                "pass breaks_running_transactions=True",
                "set spark.databricks.delta.retentionDurationCheck.enabled to false",
            )
        ) from None


def _expire(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    _refuse(
        given,
        {"snapshot_ids": "versions expire by age: give older_than, and keep others by tags"},
    )
    least = int(given.get("retain_last", 1))
    if least > 1:
        plan = _vacuumed(spark, table, given, dry_run=True)
        if plan.oldest > 0 and plan.version - plan.oldest + 1 < least:
            raise UnsupportedFeatureError(
                f"retain_last is {least}, and only the versions {plan.oldest} to {plan.version} "
                "are younger than older_than; give an earlier older_than, or tag a version",
                ["procedure:retain_last"],
            )
    done = _vacuumed(spark, table, given, dry_run=False)
    return {**dict.fromkeys(_EXPIRED.names, 0), "deleted_data_files_count": done.deleted}


def _orphans(spark: Session, table: SparkTable, given: Given) -> pa.Table:
    _refuse(
        given,
        {
            "location": "the whole folder of the table is listed; leave it out",
            "file_list_view": "the folder is listed once; leave it out",
        },
    )
    found = _vacuumed(spark, table, given, dry_run=True)
    before = table.table.context.view.head.totals.oldest
    if found.oldest > before:
        raise UnsupportedFeatureError(
            f"a vacuum removes orphans together with versions past retention, here {before} to "
            f"{found.oldest - 1}. Call expire_snapshots first, which gives these versions up and "
            "removes the orphans too",
            ["procedure:remove_orphan_files"],
        )
    if not given.get("dry_run"):
        found = _vacuumed(spark, table, given, dry_run=False)
    uri = table.table.uri.rstrip("/")
    paths = pc.binary_join_element_wise(uri, found.files["path"].cast(pa.string()), "/")
    return pa.table({"orphan_file_location": paths}, schema=_ORPHANS)


def _target_size(options: Given) -> int | None:
    for name in options:
        if name not in _TUNING | {"target-file-size-bytes", "rewrite-all"}:
            raise UnsupportedFeatureError(
                f"the option {name} of rewrite_data_files is not supported on tablefmt tables; "
                "leave it out",
                [f"procedure:{name}"],
            )
    size = options.get("target-file-size-bytes")
    return None if size is None else int(size)


def _rewrite(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    _refuse(given, {"branch": "a table has one line of versions; leave it out"})
    options, where = given.get("options", {}), given.get("where")
    size, strategy = _target_size(options), folded(given.get("strategy", "binpack"))
    if strategy not in ("binpack", "sort"):
        raise InvalidArgumentError(f"strategy is {strategy!r}; expected binpack or sort")
    if "sort_order" in given:
        by, zorder = sort_columns(given["sort_order"], "sort_order")
        curve: Any = "zorder" if zorder else "linear"
        done = table.cluster(by, where=where, curve=curve, target_file_size=size)
    elif strategy == "sort" or table.table.cluster_by:
        done = table.cluster(where=where, target_file_size=size)
    else:
        kind: Any = "major" if folded(options.get("rewrite-all", "")) == "true" else "minor"
        done = table.compact(kind, where=where, target_file_size=size)
    return {
        "rewritten_data_files_count": done.metrics.get("numRemovedFiles", 0),
        "added_data_files_count": done.metrics.get("numAddedFiles", 0),
        "rewritten_bytes_count": done.metrics.get("numRemovedBytes", 0),
        "failed_data_files_count": 0,
        "removed_delete_files_count": 0,
    }


def _checkpoint(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    instead = "a checkpoint has all files of a version; leave it out"
    _refuse(given, {"spec_id": instead, "sort_by": instead})
    table.table.checkpoint()
    return {"rewritten_manifests_count": 0, "added_manifests_count": 1}


def _purge(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    done = table.compact("major", where=given.get("where"))
    return {
        "rewritten_delete_files_count": done.metrics.get("numRemovedFiles", 0),
        "added_delete_files_count": 0,
        "rewritten_bytes_count": done.metrics.get("numRemovedBytes", 0),
        "added_bytes_count": done.metrics.get("numAddedBytes", 0),
    }


def _snapshot(spark: Session, table: SparkTable, given: Given) -> dict[str, int]:
    target = str(_needed(given, "table"))
    pairs = ", ".join(
        f"{text_sql(n)} = {text_sql(v)}" for n, v in given.get("properties", {}).items()
    )
    parts = [
        f"CREATE TABLE {target} SHALLOW CLONE {given['source_table']}",
        *([f"TBLPROPERTIES ({pairs})"] if pairs else []),
        *([f"LOCATION {text_sql(given['location'])}"] if "location" in given else []),
    ]
    spark.sql(" ".join(parts))
    files = table.table.context.view.snapshot().totals[0]
    return {"imported_files_count": files}


def _ancestors(spark: Session, table: SparkTable, given: Given) -> pa.Table:
    rows = table.table.history().select(["version", "timestamp"])
    newest = given.get("snapshot_id")
    if newest is not None:
        rows = rows.filter(pc.less_equal(rows["version"], newest))
    times = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
    return pa.table({"snapshot_id": rows["version"], "timestamp": times}, schema=_ANCESTORS)


_BOUNDS = {
    "start-snapshot-id": "after_version",
    "end-snapshot-id": "ending_version",
    "start-timestamp": "after_timestamp",
    "end-timestamp": "ending_timestamp",
}
"""Our bound by Iceberg's option. A start is exclusive, an end is inclusive."""


def _range(options: Given) -> RangeKeywords:
    bounds: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _BOUNDS:
            raise UnsupportedFeatureError(
                f"the option {name} of create_changelog_view is not supported on tablefmt tables; "
                f"it may be {', '.join(_BOUNDS)}",
                [f"procedure:{name}"],
            )
        number = int(value)
        bounds[_BOUNDS[name]] = from_micros(number * 1000) if "time" in name else number
    if not {"after_version", "after_timestamp"} & bounds.keys():
        bounds["starting_version"] = 0
    keywords: RangeKeywords = {}
    keywords.update(bounds)  # type: ignore[typeddict-item]
    return keywords


_CHANGE_TYPES = {
    "insert": "INSERT",
    "update_postimage": "INSERT",
    "delete": "DELETE",
    "update_preimage": "DELETE",
}
"""Iceberg's type of a change without updates, by ours."""


def _changelog(spark: Session, table: SparkTable, given: Given) -> dict[str, str]:
    keys = list(given.get("identifier_columns", ()))
    net, updates = bool(given.get("net_changes")), bool(given.get("compute_updates", keys))
    if net and updates:
        raise InvalidArgumentError("net_changes and compute_updates exclude each other; give one")
    if updates and not keys:
        raise InvalidArgumentError("compute_updates needs identifier_columns")
    bounds = _range(given.get("options", {}))
    asked: RangeKeywords = {**bounds, "content": "net" if net else "changes"}
    frame = table.changes(**asked)
    first = bounds.get("after_version")
    if first is None:
        found = table.table.changes(**bounds)
        first = found.first_version - 1
    name = given.get("changelog_view") or f"{name_parts(given['table'])[-1]}_changes"
    _as_icebergs(frame, int(first) + 1, keys).createOrReplaceTempView(quote_name(name))
    return {"changelog_view": name}


def _as_icebergs(frame: DataFrame, first: int, keys: list[str]) -> DataFrame:
    """Return changes with the columns and the types of Iceberg's changelog."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ours = [name for name in frame.columns if name not in CHANGE_COLUMNS.names]
    kinds = f.create_map(*(f.lit(text) for pair in _CHANGE_TYPES.items() for text in pair))
    kind = kinds[f.col("_change_type")]
    version = f.col("_commit_version")
    if keys:
        of_a_key = Window.partitionBy("_commit_version", *map(quote_name, keys))
        seen = [f.max((kind == each).cast("int")).over(of_a_key) for each in ("INSERT", "DELETE")]
        update = f.when(kind == "INSERT", "UPDATE_AFTER").otherwise("UPDATE_BEFORE")
        kind = f.when((seen[0] == 1) & (seen[1] == 1), update).otherwise(kind)
    return frame.select(
        *map(quote_name, ours),
        kind.alias("_change_type"),
        (version - first).cast("int").alias("_change_ordinal"),
        version.alias("_commit_snapshot_id"),
    )


_PROCEDURES: Mapping[str, tuple[pa.Schema, Callable[[Session, SparkTable, Given], Any]]] = {
    "rollback_to_snapshot": (_MOVED, _to_snapshot),
    "rollback_to_timestamp": (_MOVED, _to_timestamp),
    "set_current_snapshot": (_MOVED, _set_current),
    "expire_snapshots": (_EXPIRED, _expire),
    "remove_orphan_files": (_ORPHANS, _orphans),
    "rewrite_data_files": (_REWRITTEN, _rewrite),
    "rewrite_manifests": (_MANIFESTS, _checkpoint),
    "rewrite_position_delete_files": (_DELETES, _purge),
    "snapshot": (_COPIED, _snapshot),
    "ancestors_of": (_ANCESTORS, _ancestors),
    "create_changelog_view": (_VIEW, _changelog),
}
"""Result columns and function of each procedure that is not refused."""
