"""Advice for misspelled arguments: the name that Delta, delta-rs, polars or Iceberg use, or a name
close to one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import CO_VARKEYWORDS
from types import FunctionType
from typing import Any, TypeVar, cast

from tablefmt.errors import UnknownArgumentError
from tablefmt.model.name_matching import near_name

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "commit_properties": ("user_metadata", "application"),
    "condition": ("where", "on"),
    "configuration": ("properties",),
    "custom_metadata": ("user_metadata",),
    "description": ("comment",),
    "dry": ("dry_run",),
    "end_version": ("ending_version",),
    "enforce_retention_duration": ("breaks_running_transactions",),
    "filter": ("where",),
    "filters": ("where",),
    "if_not_exists": ("exist_ok",),
    "ignore_if_exists": ("exist_ok",),
    "location": ("uri",),
    "options": ("storage_options", "properties"),
    "partition_columns": ("partition_by",),
    "partition_cols": ("partition_by",),
    "partition_filters": ("where",),
    "partition_overwrite_mode": ("dynamic_partitions",),
    "partitioning": ("partition_by",),
    "path": ("uri",),
    "predicate": ("where", "on"),
    "replace_where": ("where",),
    "retention_hours": ("retention",),
    "row_filter": ("where",),
    "schema_mode": ("merge_schema", "overwrite_schema"),
    "selected_fields": ("columns",),
    "snapshot_id": ("version",),
    "snapshot_properties": ("user_metadata",),
    "sort_by": ("cluster_by",),
    "start_version": ("starting_version",),
    "table_properties": ("properties",),
    "table_uri": ("uri",),
    "target_size": ("target_file_size",),
    "timestamp_as_of": ("timestamp",),
    "txn_app_id": ("application",),
    "txn_version": ("application",),
    "updates": ("set",),
    "version_as_of": ("version",),
    "with_columns": ("columns",),
    "n_rows": ("limit",),
    "projection": ("columns",),
    "select": ("columns",),
    "target": ("version",),
    "zorder_by": ("columns", "cluster_by"),
}
"""Arguments of other libraries in snake case, and ours with the same meaning."""

_NEWEST = (
    "an import takes the newest version of the source: in Iceberg, the current snapshot of "
    "the branch main. For an older one, name the address of an older metadata file of Iceberg"
)

_OLDER = "a handle reads every version: use scan(version=…), or to_arrow(timestamp=…)"
_PARTS = "to replace the rows of a condition, use Table.overwrite(data, where)"
_DEFINED = "to define a table, use tablefmt.create(uri, schema, properties=…)"

MISSING: Mapping[tuple[str, str], str] = {
    ("import_table", name): _NEWEST
    for name in ("branch", "ref", "snapshot_id", "tag", "timestamp", "version", "version_as_of")
} | {
    **{("open", name): _OLDER for name in ("snapshot_id", "timestamp", "version", "version_as_of")},
    **{("write", name): _PARTS for name in ("predicate", "replace_where", "where")},
    ("write", "configuration"): _DEFINED,
    ("write", "properties"): _DEFINED,
    ("merge", "join_cols"): 'give `on`, a condition such as "t.id = s.id"',
    ("update", "new_values"): "give `set`, with SQL text for each column",
}
"""Reasons why a function has no such argument, by function and argument in snake case."""

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def suggestion(given: str, known: frozenset[str]) -> str | None:
    """Return the known argument that a caller most likely means; None if no name is near. Pure."""
    plain = _CAPITAL.sub("_", given).lower()
    if plain in known:
        return plain
    return next((name for name in ELSEWHERE.get(plain, ()) if name in known), None) or near_name(
        plain, sorted(known)
    )


def check_names(function: Function) -> Function:
    """Make a function refuse unknown arguments with advice, instead of with Python's TypeError.

    A call with an unknown argument raises UnknownArgumentError. Further keywords of the function
    must have the type `Unpack[…]` of a TypedDict that its module knows. Keywords named `options`
    may have any name: their parser refuses unknown ones.
    """
    known, name = _arguments(function), function.__name__
    if known is None:
        return function

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if not given.keys() <= known:
            unknown = next(one for one in given if one not in known)
            near = suggestion(unknown, known)
            takes = f"it takes {', '.join(sorted(known))}"
            advice = takes if near is None else f"did you mean {near!r}?"
            advice = MISSING.get((name, _CAPITAL.sub("_", unknown).lower()), advice)
            raise UnknownArgumentError(f"{name}(): unknown argument {unknown!r}; {advice}")
        return function(*args, **given)

    return cast(Function, checked)


def check_method_names(cls: Class) -> Class:
    """Apply `check_names` to the public methods that a class defines."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, check_names(member))
    return cls


def _arguments(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names that a function takes as keywords; None if it takes any name."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = set(code.co_varnames[code.co_posonlyargcount : count])
    if code.co_flags & CO_VARKEYWORDS:
        if code.co_varnames[count] == "options":
            return None
        more = function.__annotations__[code.co_varnames[count]]
        names |= function.__globals__[more.removeprefix("Unpack[")[:-1]].__annotations__.keys()
    return frozenset(names - {"self"})
