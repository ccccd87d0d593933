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
from tablefmt.expressions.session_times import in_session
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
    "startingVersion": "begin with this version, inclusive; or earliest, or latest: what is yet to "
    "come. By default all rows that are there, and then what comes",
    "startingTimestamp": "or begin with the commits of this time, and after it; without a "
    "zone in the session's (TIM-5)",
    "maxFilesPerTrigger": "files a batch; 1000, unless maxBytesPerTrigger is given",
    "maxBytesPerTrigger": "bytes a batch, about: a file at least; a number, or text such as 128mb",
    "readChangeFeed": "true: every row that a commit took out or brought, with the change columns",
    "readChangeData": "the same",
    "skipChangeCommits": "true: pass over commits that delete or update rows, whatever they add",
    "ignoreDeletes": "true: pass over commits that only delete rows",
    "path": "where the table is",
    "storageOptions": "a mapping, as of tablefmt.open(); storage.<key> gives one of them,"
    " with dots for what is nested: storage.client_kwargs.region_name",
}
"""Names as people write them: matched with case and underscores ignored."""

LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")

FILES_BY_DEFAULT = 1000
"""As Delta has it."""

EARLIEST, LATEST = "earliest", "latest"

_OF_STREAMS = frozenset(map(option_key, OF_STREAMS))
_NAMES = {folded(name): name for name in STREAM_OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a stream was asked for, checked."""

    path: str | None = None
    version: int | str | None = None
    """A number, EARLIEST or LATEST."""
    timestamp: Time | None = None
    max_files: int | None = FILES_BY_DEFAULT
    max_bytes: int | None = None
    changes: bool = False
    """Rows come with what happened to them."""
    skip_changes: bool = False
    ignore_deletes: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict)


def parse_stream_options(given: Mapping[str, Any], zone: str | None) -> StreamOptions:
    """Options by name.

    Args:
        given: the options, as they were written.
        zone: the session's time zone, for a time without one; None: it is not known (TIM-5).

    Raises:
        UnsupportedFeatureError: a name that there is not; a time without a zone, where the
            session's is not known.
        InvalidRangeError: a version and a time, or a value that makes no sense.
    """
    values, storage = by_name(given, _NAMES)
    if "startingVersion" in values and "startingTimestamp" in values:
        raise InvalidRangeError("give startingVersion or startingTimestamp, not both")
    changes = bool(flag(values, "readChangeFeed") or flag(values, "readChangeData"))
    skip, ignore = flag(values, "skipChangeCommits"), flag(values, "ignoreDeletes")
    if changes and (skip or ignore):
        raise InvalidRangeError(
            "readChangeFeed gives the rows of every commit; leave skipChangeCommits and "
            "ignoreDeletes out"
        )
    max_bytes = size_of(values, "maxBytesPerTrigger")
    max_files = None if "maxBytesPerTrigger" in values else FILES_BY_DEFAULT
    if "maxFilesPerTrigger" in values:
        max_files = _count(values["maxFilesPerTrigger"])
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
        changes=changes,
        skip_changes=bool(skip),
        ignore_deletes=bool(ignore),
        storage_options={**storage, **storage_given(values)},
    )


def is_of_stream(given: Mapping[str, Any]) -> bool:
    """Whether there are options among these that streams alone have."""
    return any(option_key(name) in _OF_STREAMS for name in given)


def limits_in(given: Mapping[str, Any]) -> list[str]:
    """Those among these options that limit how much goes into a batch (STR-4)."""
    names = {option_key(name) for name in given}
    return [name for name in LIMITS if option_key(name) in names]


def _version(given: Any) -> int | str | None:
    text = folded(str(given).strip())
    if given is None or text in (EARLIEST, LATEST):
        return None if given is None else text
    number = number_in_text(text)
    if number is None:
        raise InvalidRangeError(
            f"startingVersion is {given!r}; it is a whole number, earliest or latest"
        )
    return number


def _count(given: Any) -> int:
    number = number_in_text(given) or 0
    if not 0 < number < 1 << 62:
        raise InvalidArgumentError(f"maxFilesPerTrigger is {given!r}; it is a whole number from 1")
    return number


def stream_columns(schema: Schema, options: StreamOptions) -> dict[str, Any]:
    """The columns of a stream's rows, in Spark's JSON form of a StructType.

    Raises:
        SchemaMismatchError: INC-3, columns of the table are called like the change columns.
    """
    described: dict[str, Any] = to_spark_json(schema)
    if not options.changes:
        return described
    clash = [name for name in schema.names if folded(name) in CHANGE_COLUMNS.names]
    if clash:
        raise SchemaMismatchError(
            f"the table's own columns {', '.join(map(repr, clash))} are called like the change "
            "columns; leave readChangeFeed out",
            clash,
        )
    fields = [*described["fields"], *to_spark_json(from_arrow(CHANGE_COLUMNS))["fields"]]
    return {**described, "fields": fields}
