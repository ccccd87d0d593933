"""Options of Iceberg's reads, writes and streams, and the options of tablefmt that they become.

`ICEBERG_OPTIONS` is the whole list. A value may be refused, and so may an option. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.name_matching import folded
from tablefmt.model.times import show_time


@dataclass(frozen=True, slots=True)
class IcebergOption:
    """The meaning of one of Iceberg's options."""

    ours: Callable[[Any], Mapping[str, Any]] | None = None
    """Returns our options for a value. None: the option has no effect on rows."""
    instead: str | None = None
    """The alternative to an option that is refused, or to a value that is not in `values`."""
    values: Mapping[str, Mapping[str, Any]] | None = None
    """Our options for each value that is allowed."""


def _same(name: str) -> IcebergOption:
    return IcebergOption(lambda value: {name: value})


def _time(name: str) -> IcebergOption:
    return IcebergOption(lambda value: {name: _iso(value)})


def _iso(value: Any) -> str:
    number = number_in_text(value)
    if number is None:
        raise InvalidRangeError(f"the time is {value!r:.50}; expected milliseconds since 1970")
    return show_time(number * 1000)


def _refused(instead: str) -> IcebergOption:
    return IcebergOption(None, instead)


def _only(instead: str, **values: Mapping[str, Any]) -> IcebergOption:
    return IcebergOption(None, instead, values)


_UNUSED = IcebergOption()
_APPENDS = {"readChangeFeed": "true", "changeContent": "append", "changeColumns": "false"}
_ONE_LINE = "a table has one line of versions; leave it out"
_PARQUET = _only("data files are Parquet; leave it out", parquet={})
_SKIP = _only("leave it out", true={"skipChangeCommits": "true"}, false={})
_ISOLATION = _refused("set the property isolationLevel of the table")

ICEBERG_OPTIONS: Mapping[str, IcebergOption] = {
    "snapshot-id": _same("versionAsOf"),
    "as-of-timestamp": _time("timestampAsOf"),
    "tag": _same("versionAsOf"),
    "branch": _refused(_ONE_LINE),
    "start-snapshot-id": IcebergOption(
        lambda value: {
            **_APPENDS,
            "startingVersion": value,
            "startingBoundInclusive": "false",
        }
    ),
    "end-snapshot-id": _same("endingVersion"),
    "write-format": _PARQUET,
    "delete-format": _PARQUET,
    "target-file-size-bytes": _same("targetFileSize"),
    "compression-codec": IcebergOption(lambda value: {"compression": folded(str(value))}),
    "merge-schema": _same("mergeSchema"),
    "overwrite-mode": _same("partitionOverwriteMode"),
    "check-nullability": _only("NOT NULL is always checked; leave it out", true={}),
    "distribution-mode": _only(
        "cluster the table instead: ALTER TABLE … CLUSTER BY",
        hash={"optimizeWrite": "true"},
        none={"optimizeWrite": "false"},
    ),
    "isolation-level": _ISOLATION,
    "validate-from-snapshot-id": _ISOLATION,
    "stream-from-timestamp": _time("startingTimestamp"),
    "streaming-max-files-per-micro-batch": _same("maxFilesPerTrigger"),
    "streaming-max-rows-per-micro-batch": _same("maxRowsPerTrigger"),
    "streaming-skip-delete-snapshots": _SKIP,
    "streaming-skip-overwrite-snapshots": _SKIP,
    **dict.fromkeys(
        (
            *("split-size", "lookback", "file-open-cost", "vectorization-enabled", "batch-size"),
            *("check-ordering", "fanout-enabled", "compression-level", "compression-strategy"),
            *("delete-granularity", "shred-variants", "variant-inference-buffer-size"),
            *("use-merge-append-for-streaming", "use-table-distribution-and-ordering"),
            *("async-micro-batch-planning-enabled", "streaming-snapshot-polling-interval-ms"),
            *("async-queue-preload-file-limit", "async-queue-preload-row-limit", "locality"),
        ),
        _UNUSED,
    ),
}
"""Iceberg's options."""

_PROPERTY = "snapshot-property."


def with_icebergs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with those of Iceberg replaced by ours.

    Raises:
        UnsupportedFeatureError: an option, or a value, that has no counterpart.
        InvalidRangeError: a time that is no number of milliseconds.
    """
    found: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for written, value in given.items():
        name = folded(written)
        if name.startswith(_PROPERTY):
            metadata[written[len(_PROPERTY) :]] = value
            continue
        row = ICEBERG_OPTIONS.get(name)
        found |= {written: value} if row is None else _ours(row, name, value)
    if metadata:
        found["userMetadata"] = metadata
    return found


def _ours(row: IcebergOption, name: str, value: Any) -> Mapping[str, Any]:
    if row.ours is not None:
        return row.ours(value)
    if row.values is not None and folded(str(value)) in row.values:
        return row.values[folded(str(value))]
    if row.instead is None:
        return {}
    what = f"the option {name}" if row.values is None else f"the option {name}={value}"
    raise UnsupportedFeatureError(
        f"{what} of Iceberg is not supported on tablefmt tables; {row.instead}", [f"option:{name}"]
    )
