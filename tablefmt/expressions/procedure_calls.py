"""CALL of one of Iceberg's procedures: `CALL catalog.system.rollback_to_snapshot('db.t', 1)`. Pure.

The arguments are constants, by position or by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
import sqlglot.errors
from sqlglot import exp

from tablefmt.errors import InvalidArgumentError
from tablefmt.model.name_matching import did_you_mean, folded

PROCEDURES: Mapping[str, tuple[str, ...]] = {
    "rollback_to_snapshot": ("table", "snapshot_id"),
    "rollback_to_timestamp": ("table", "timestamp"),
    "set_current_snapshot": ("table", "snapshot_id", "ref"),
    "expire_snapshots": (
        *("table", "older_than", "retain_last", "max_concurrent_deletes", "stream_results"),
        *("snapshot_ids", "clean_expired_metadata"),
    ),
    "remove_orphan_files": (
        *("table", "older_than", "location", "dry_run", "max_concurrent_deletes"),
        *("file_list_view", "equal_schemes", "equal_authorities", "prefix_mismatch_mode"),
        *("prefix_listing", "stream_results"),
    ),
    "rewrite_data_files": ("table", "strategy", "sort_order", "options", "where", "branch"),
    "rewrite_manifests": ("table", "use_caching", "spec_id", "sort_by"),
    "rewrite_position_delete_files": ("table", "options", "where"),
    "snapshot": ("source_table", "table", "location", "properties", "parallelism"),
    "ancestors_of": ("table", "snapshot_id"),
    "create_changelog_view": (
        *("table", "changelog_view", "options", "compute_updates", "identifier_columns"),
        "net_changes",
    ),
    "cherrypick_snapshot": ("table", "snapshot_id"),
    "publish_changes": ("table", "wap_id"),
    "fast_forward": ("table", "branch", "to"),
    "migrate": ("table", "properties", "drop_backup", "backup_table_name", "parallelism"),
    "add_files": (
        *("table", "source_table", "partition_filter", "check_duplicate_files", "parallelism"),
    ),
    "register_table": ("table", "metadata_file"),
    "compute_table_stats": ("table", "snapshot_id", "columns"),
    "compute_partition_stats": ("table", "snapshot_id"),
    "rewrite_table_path": (
        *("table", "source_prefix", "target_prefix", "start_version", "end_version"),
        *("staging_location", "create_file_list"),
    ),
}
"""Names of the arguments of each of Iceberg's procedures, in their order."""

_ONE_LINE = "a table has one line of versions; for a trial, use CREATE TABLE … SHALLOW CLONE"

REFUSED: Mapping[str, str] = {
    "cherrypick_snapshot": _ONE_LINE,
    "publish_changes": _ONE_LINE,
    "fast_forward": _ONE_LINE,
    "migrate": "use CONVERT TO tablefmt parquet.`/path`, then CREATE TABLE … OPTIONS (path '…')",
    "add_files": "use INSERT INTO t SELECT * FROM parquet.`/path`",
    "register_table": "use CONVERT TO tablefmt iceberg.`/path`, then CREATE TABLE … OPTIONS",
    "compute_table_stats": "bounds and counts are written with each file; there is no ANALYZE",
    "compute_partition_stats": "t.partitions has the rows and bytes of each partition",
    "rewrite_table_path": "paths are relative; copy the folder, or make a deep clone",
}
"""Procedures without a counterpart, and what to use."""

WITHOUT_OURS = ("migrate", "register_table")
"""Refused procedures about a table that is not, or not yet, one of ours."""


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """A call of one of `PROCEDURES`."""

    name: str
    arguments: Mapping[str, Any]
    """Values by the name of the argument: text, numbers, booleans, lists and dicts. A timestamp
    is text."""

    @property
    def table(self) -> str | None:
        """Return the name of the table that the procedure reads or changes."""
        named = self.arguments.get("source_table" if self.name == "snapshot" else "table")
        return named if isinstance(named, str) else None


def read_call(name: str, arguments: str) -> ProcedureCall | None:
    """Return a call; None if there is no such procedure.

    Args:
        name: of the procedure.
        arguments: the text in brackets.

    Raises:
        InvalidArgumentError: an argument that the procedure does not have, or no constant.
    """
    names = PROCEDURES.get(folded(name))
    if names is None:
        return None
    name = folded(name)
    try:
        given = sqlglot.parse_one(f"f({arguments})", dialect="spark").args.get("expressions", ())
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(f"cannot read the arguments of {name}: {error}") from None
    found: dict[str, Any] = {}
    for at, each in enumerate(given):
        if isinstance(each, exp.Kwarg):
            key, value = folded(each.this.name), each.expression
        elif at < len(names):
            key, value = names[at], each
        else:
            raise InvalidArgumentError(f"{name} has the arguments {', '.join(names)}")
        if key not in names:
            raise InvalidArgumentError(
                f"{name} has no argument {key}; its arguments are {', '.join(names)}"
                f"{did_you_mean(key, names)}"
            )
        if key in found:
            raise InvalidArgumentError(f"{name} has its argument {key} twice")
        found[key] = _constant(value, f"{name}({key})")
    return ProcedureCall(name, {key: value for key, value in found.items() if value is not None})


def _constant(given: exp.Expression, place: str) -> Any:
    if isinstance(given, exp.Literal):
        return given.this if given.is_string else _number(given.this)
    if isinstance(given, exp.Boolean):
        return bool(given.this)
    if isinstance(given, exp.Null):
        return None
    if isinstance(given, exp.Neg) and given.this.is_number:
        return -_number(given.this.this)
    if isinstance(given, exp.Cast) and isinstance(given.this, exp.Literal):
        # `5L` is a cast of a number, TIMESTAMP '…' one of a text.
        return _constant(given.this, place)
    if isinstance(given, exp.Array):
        return [_constant(each, place) for each in given.expressions]
    if isinstance(given, exp.VarMap | exp.Map):
        keys = given.args.get("keys") or exp.Array()
        values = given.args.get("values") or exp.Array()
        pairs = zip(keys.expressions, values.expressions, strict=True)
        return {_constant(key, place): _constant(value, place) for key, value in pairs}
    raise InvalidArgumentError(f"{place} is {given.sql('spark')!r:.100}; expected a constant")


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)


def sort_columns(text: str, place: str) -> tuple[list[str], bool]:
    """Return the columns of a sort order, and whether it is a Z-order.

    Raises:
        InvalidArgumentError: a direction that tables do not have, or no list of columns.
    """
    stripped = text.strip()
    if folded(stripped).startswith("zorder") and stripped.endswith(")"):
        inside = stripped[stripped.index("(") + 1 : -1] if "(" in stripped else ""
        return _names(inside, place), True
    return _names(stripped, place), False


def _names(text: str, place: str) -> list[str]:
    try:
        query = sqlglot.parse_one(f"SELECT 1 ORDER BY {text}", dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise InvalidArgumentError(f"{place} is {text!r:.200}; expected names of columns") from None
    names = []
    for each in query.args["order"].expressions:
        if each.args.get("desc") or each.args.get("nulls_first") is False:
            raise InvalidArgumentError(
                f"{place}: rows are sorted ascending, NULL first; leave DESC and NULLS LAST out"
            )
        if not isinstance(each.this, exp.Column | exp.Dot):
            raise InvalidArgumentError(
                f"{place}: {each.this.sql('spark')!r:.100} is not the name of a column"
            )
        names.append(".".join(part.name for part in each.this.parts))
    return names
