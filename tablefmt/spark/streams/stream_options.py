"""Options of `spark.readStream.format("tablefmt")`, and the columns of the stream's rows. Pure.

Spec: STR-1, STR-3, INC-3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, SchemaMismatchError
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.literals import in_session
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema
from tablefmt.model.times import Time, to_micros
from tablefmt.spark.spark_options import (
    OF_STREAMS,
    by_name,
    flag,
    option_key,
    size_of,
    storage_given,
)

STREAM_OPTIONS = {
    "startingVersion": "first version to read; or earliest, or latest: new versions only. By "
    "default the stream reads all existing rows, then new versions",
    "startingTimestamp": "first commit time to read, instead of a version; text without a zone "
    "is in the session's time zone (TIM-5)",
    "maxFilesPerTrigger": "files per batch; 1000, unless there is another limit",
    "maxBytesPerTrigger": "approximate bytes per batch, at least one file; a number, or text such "
    "as 128mb",
    "maxRowsPerTrigger": "rows per batch, unless its first file has more",
    "readChangeFeed": "true: return every row that a commit added or removed, with change columns",
    "readChangeData": "same as readChangeFeed",
    "skipChangeCommits": "true: skip commits that delete or update rows, also rows that they add",
    "ignoreDeletes": "true: skip commits that only delete rows",
    "path": "the location of the table",
    "storageOptions": "a mapping, as in tablefmt.open(); storage.<key> sets a single key,"
    " with dots for what is nested: storage.client_kwargs.region_name",
}
"""Options and their meaning. Case and underscores of names are ignored."""

LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger")

FILES_BY_DEFAULT = 1000
"""Delta's default."""

EARLIEST, LATEST = "earliest", "latest"

_OF_STREAMS = frozenset(map(option_key, OF_STREAMS))
_NAMES = {folded(name): name for name in STREAM_OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Checked options of a stream."""

    path: str | None = None
    version: int | str | None = None
    """A number, EARLIEST or LATEST."""
    timestamp: Time | None = None
    max_files: int | None = FILES_BY_DEFAULT
    max_bytes: int | None = None
    max_rows: int | None = None
    changes: bool = False
    """True returns row changes with change columns."""
    skip_changes: bool = False
    ignore_deletes: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict)


def parse_stream_options(given: Mapping[str, Any], zone: str | None) -> StreamOptions:
    """Return the checked options.

    Args:
        given: the options, as they were written.
        zone: the session's time zone, for times without a zone. None: unknown (TIM-5).

    Raises:
        UnsupportedFeatureError: an unknown option; or a time without a zone, if the session's time
            zone is unknown.
        InvalidRangeError: both a version and a time, or an invalid value.
    """
    values, storage = by_name(given, _NAMES)
    if "startingVersion" in values and "startingTimestamp" in values:
        raise InvalidRangeError("give startingVersion or startingTimestamp, not both")
    changes = bool(flag(values, "readChangeFeed") or flag(values, "readChangeData"))
    skip, ignore = flag(values, "skipChangeCommits"), flag(values, "ignoreDeletes")
    if changes and (skip or ignore):
        raise InvalidRangeError(
            "readChangeFeed returns the rows of every commit; leave out skipChangeCommits and "
            "ignoreDeletes"
        )
    max_bytes = size_of(values, "maxBytesPerTrigger")
    max_rows = _count(values, "maxRowsPerTrigger")
    max_files = _count(values, "maxFilesPerTrigger")
    if max_files is None and max_bytes is None and max_rows is None:
        max_files = FILES_BY_DEFAULT
    timestamp = values.get("startingTimestamp")
    if timestamp is not None:
        timestamp = in_session(timestamp, zone)
        to_micros(timestamp)
    return StreamOptions(
        path=values.get("path"),
        version=_version(values.get("startingVersion")),
        timestamp=timestamp,
        max_files=max_files,
        max_bytes=max_bytes,
        max_rows=max_rows,
        changes=changes,
        skip_changes=bool(skip),
        ignore_deletes=bool(ignore),
        storage_options={**storage, **storage_given(values)},
    )


def is_of_stream(given: Mapping[str, Any]) -> bool:
    """Return whether an option is one that only streams have."""
    return any(option_key(name) in _OF_STREAMS for name in given)


def limits_in(given: Mapping[str, Any]) -> list[str]:
    """Return the options that limit the size of a batch (STR-4)."""
    names = {option_key(name) for name in given}
    return [name for name in LIMITS if option_key(name) in names]


def _version(given: Any) -> int | str | None:
    text = folded(str(given).strip())
    if given is None or text in (EARLIEST, LATEST):
        return None if given is None else text
    number = number_in_text(text)
    if number is None:
        raise InvalidRangeError(
            f"startingVersion is {given!r}; expected a whole number, earliest or latest. A stream "
            "takes no tag: give the tag's version, which `tablefmt tags` and table.tags() show"
        )
    return number


def _count(values: Mapping[str, Any], name: str) -> int | None:
    if name not in values:
        return None
    number = number_in_text(values[name]) or 0
    if not 0 < number < 1 << 62:
        raise InvalidArgumentError(f"{name} is {values[name]!r}; expected a whole number from 1")
    return number


def stream_columns(schema: Schema, options: StreamOptions) -> dict[str, Any]:
    """Return the columns of a stream's rows, in Spark's JSON form of a StructType.

    Raises:
        SchemaMismatchError: INC-3, columns of the table have the names of change columns.
    """
    described: dict[str, Any] = to_spark_json(schema)
    if not options.changes:
        return described
    clash = [name for name in schema.names if folded(name) in CHANGE_COLUMNS.names]
    if clash:
        raise SchemaMismatchError(
            f"columns {', '.join(map(repr, clash))} of the table have the names of change columns; "
            "leave readChangeFeed out",
            clash,
        )
    fields = [*described["fields"], *to_spark_json(from_arrow(CHANGE_COLUMNS))["fields"]]
    return {**described, "fields": fields}
