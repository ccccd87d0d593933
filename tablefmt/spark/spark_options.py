"""Options of writes and reads: the tables below are both the parser and the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.session_times import in_session
from tablefmt.model.argument_checks import number_in_text
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.model.times import Time, from_micros, to_micros
from tablefmt.session.commit_options import CommitOptions
from tablefmt.store.location import add_text_option

OPTIONS = {
    "replaceWhere": "SQL: overwrite replaces rows for which it holds; new rows have to match it",
    "partitionOverwriteMode": "static, or dynamic: overwrite replaces the partitions that the new "
    "rows are in; by default static, with format() and SQL what the session says",
    "txnAppId": "application id; with txnVersion, the write is applied once",
    "txnVersion": "application version, a whole number",
    "application": "(txnAppId, txnVersion) in one",
    "maxRecordsPerFile": "rows a file; by default spark.sql.files.maxRecordsPerFile",
    "targetFileSize": "bytes a file, about; a number, or text such as 128mb",
    "optimizeWrite": "true: shuffle the rows first, so that tasks x partitions do not become files",
    "compression": "zstd (the default), snappy, gzip, lz4_raw or none",
    "userMetadata": "kept in the log: a mapping of JSON values, or text",
    "deadline": "seconds after which to give up committing",
    "storageOptions": "a mapping, as of tablefmt.open(); storage.<key> gives one of them,"
    " with dots for what is nested: storage.client_kwargs.region_name",
    "mergeSchema": "true: columns that the table lacks are added, and types become wider",
    "overwriteSchema": "true: overwrite gives the table the columns of the new rows, and the "
    "partitioning that partitionBy says; a DataFrameWriter without partitionBy leaves none",
}
"""Names as people write them: matched with case and underscores ignored."""


class NamedOptions(TypedDict, total=False):
    """`OPTIONS` as keywords."""

    replaceWhere: str
    partitionOverwriteMode: str
    txnAppId: str
    txnVersion: int | str
    application: tuple[str, int]
    maxRecordsPerFile: int | str
    targetFileSize: int | str
    optimizeWrite: bool | str
    compression: str | None
    userMetadata: Mapping[str, Any] | str
    deadline: float | str
    storageOptions: Mapping[str, Any]
    mergeSchema: bool | str
    overwriteSchema: bool | str


class WriteKeywords(NamedOptions, total=False):
    """`OPTIONS` as keywords, in either way to write them; types for editors. There may also be
    `**{"storage.<key>": …}`.
    """

    replace_where: str
    partition_overwrite_mode: str
    txn_app_id: str
    txn_version: int | str
    max_records_per_file: int | str
    target_file_size: int | str
    optimize_write: bool | str
    user_metadata: Mapping[str, Any] | str
    storage_options: Mapping[str, Any]
    merge_schema: bool | str
    overwrite_schema: bool | str


assert list(NamedOptions.__annotations__) == list(OPTIONS), "a keyword for every option"


class RangeKeywords(TypedDict, total=False):
    """The keywords of `Table.changes`."""

    starting_version: int | None
    after_version: int | None
    starting_timestamp: Time | None
    after_timestamp: Time | None
    ending_version: int | None
    ending_timestamp: Time | None
    content: str
    schema: str
    expired: str
    columns: Sequence[str] | None
    where: Condition


CHANGE_OPTIONS = {
    "startingVersion": "the first version of the range, or",
    "startingTimestamp": "its begin as a time",
    "endingVersion": "the last version of the range; by default the newest",
    "endingTimestamp": "or its end as a time",
    "startingBoundInclusive": "false: the range begins after what is given",
    "endingBoundInclusive": "false: the range ends before what is given",
    "changeContent": "changes, net or append",
    "changeSchema": "end or start: whose columns the rows have",
    "changeExpired": "error or snapshot: what to do if the range begins before what is kept",
}
"""Those of a range of changes, which readChangeFeed asks for."""

READ_OPTIONS = {
    "versionAsOf": "the ID version to read",
    "timestampAsOf": "or a point in time, ISO 8601; without a zone in the session's (TIM-5)",
    "readChangeFeed": "true: the row changes of a range, and not the rows of a version",
    "readChangeData": "the same",
    **CHANGE_OPTIONS,
    "path": "where the table is",
    "storageOptions": "a mapping, as of tablefmt.open(); storage.<key> gives one of them,"
    " with dots for what is nested: storage.client_kwargs.region_name",
}
"""Options of `spark.read.format("tablefmt")`, matched in the same way."""

TIMES = ("timestampAsOf", "startingTimestamp", "endingTimestamp")
"""Options that are points in time."""

OF_STREAMS = ("maxFilesPerTrigger", "maxBytesPerTrigger", "skipChangeCommits", "ignoreDeletes")
"""Options that streams alone have."""

PARTITION_COLUMNS, CLUSTERING_COLUMNS = "__partition_columns", "__clustering_columns"
"""Spark's names for what `partitionBy` and `clusterBy` were given: JSON arrays."""

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4_raw", "none", "uncompressed")

_PREFIX = "storage."
_HADOOPS_NAMES = {"access.key": "key", "secret.key": "secret", "session.token": "token"}
"""The plan of CREATE TABLE hides options whose names Spark knows for secrets, and no other."""
_SIZE = re.compile(r"\s*(\d{1,15})\s*(?:([kmgt])i?)?b?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_NAMES = {folded(name): name for name in OPTIONS}
_READ_NAMES = {folded(name): name for name in READ_OPTIONS}
_LATER = {folded(name): name for name in OF_STREAMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What was asked for about the files; None: not said."""

    max_records: int | None = None
    target_file_size: int | None = None
    """Bytes."""
    optimize: bool | None = None
    compression: str = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What `write` was asked for, checked."""

    commit: CommitOptions
    files: FileOptions = field(default_factory=FileOptions)
    replace_where: str | None = None
    dynamic_partitions: bool = False
    merge_schema: bool = False
    overwrite_schema: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    """What stands for the content of the rows under an application version; None: not known."""


def parse_options(given: Mapping[str, Any]) -> WriteOptions:
    """Options by name.

    Raises:
        UnsupportedFeatureError: a name that there is not, or one that is not supported yet.
        InvalidRangeError: a value that makes no sense.
    """
    values, storage = by_name(given, _NAMES)
    overwrite_schema = bool(flag(values, "overwriteSchema"))
    mode = folded(str(values.get("partitionOverwriteMode", "static")))
    if mode not in ("static", "dynamic"):
        raise InvalidArgumentError(f"partitionOverwriteMode is {mode!r}; it is static or dynamic")
    if mode == "dynamic" and "replaceWhere" in values:
        raise InvalidArgumentError(
            "replaceWhere and partitionOverwriteMode=dynamic both say what to replace; give one"
        )
    if overwrite_schema and (mode == "dynamic" or "replaceWhere" in values):
        raise InvalidArgumentError(
            "overwriteSchema gives the whole table other columns; it goes with neither "
            "replaceWhere nor partitionOverwriteMode=dynamic"
        )
    return WriteOptions(
        commit=CommitOptions(
            application=_application(values),
            user_metadata=_user_metadata(values.get("userMetadata")),
            deadline=_number(values.get("deadline")),
        ),
        files=_files(values),
        replace_where=values.get("replaceWhere"),
        dynamic_partitions=mode == "dynamic",
        merge_schema=bool(flag(values, "mergeSchema")),
        overwrite_schema=overwrite_schema,
        storage_options={**storage, **storage_given(values)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a reader was asked for, checked."""

    path: str | None = None
    version: int | None = None
    timestamp: str | None = None
    changes: RangeKeywords | None = None
    """What row changes are asked for; None: rows of a version."""
    storage_options: Mapping[str, Any] = field(default_factory=dict)


def parse_read_options(given: Mapping[str, Any], zone: str | None) -> ReadOptions:
    """Options by name.

    Args:
        given: the options, as they were written.
        zone: the session's time zone, for times without one; None: it is not known (TIM-5).

    Raises:
        UnsupportedFeatureError: a name that there is not, or one that streams have; a time without
            a zone, where the session's is not known.
        InvalidRangeError: a version and a timestamp, or a value that makes no sense.
    """
    for written in given:
        later = _LATER.get(option_key(written))
        if later is not None:
            raise UnsupportedFeatureError(
                f"{later} is an option of streams: give it to spark.readStream",
                [f"option:{later}"],
            )
    values, storage = by_name(given, _READ_NAMES)
    for name in TIMES:
        if name in values:
            values[name] = in_session(values[name], zone)
    if "versionAsOf" in values and "timestampAsOf" in values:
        raise InvalidRangeError("give versionAsOf or timestampAsOf, not both")
    return ReadOptions(
        path=values.get("path"),
        version=_version(values, "versionAsOf"),
        timestamp=values.get("timestampAsOf"),
        changes=_changes(values),
        storage_options={**storage, **storage_given(values)},
    )


def _version(values: Mapping[str, Any], name: str) -> int | None:
    if name not in values:
        return None
    number = number_in_text(values[name])
    if number is None:
        raise InvalidRangeError(f"{name} is {values[name]!r}; it is a whole number")
    return number


def _version_before(end: int) -> int:
    """The last version of a range without its end. Raises InvalidRangeError."""
    if end == 0:
        raise InvalidRangeError("endingVersion=0 and endingBoundInclusive=false leave no version")
    return end - 1


def _changes(values: Mapping[str, Any]) -> RangeKeywords | None:
    """The range asked for. Raises InvalidRangeError."""
    asked = flag(values, "readChangeFeed") or flag(values, "readChangeData")
    others = [name for name in CHANGE_OPTIONS if name in values]
    if not asked:
        if others:
            raise InvalidRangeError(f"{', '.join(others)}: give readChangeFeed=true as well")
        return None
    if "versionAsOf" in values or "timestampAsOf" in values:
        raise InvalidRangeError(
            "versionAsOf and timestampAsOf are of one version; a range of changes has "
            "startingVersion, endingVersion, startingTimestamp and endingTimestamp"
        )
    if ("startingVersion" in values) == ("startingTimestamp" in values):
        raise InvalidRangeError(
            "readChangeFeed: give exactly one of startingVersion and startingTimestamp"
        )
    bounds: RangeKeywords = {}
    first, last = (_version(values, f"{end}Version") for end in ("starting", "ending"))
    if flag(values, "startingBoundInclusive") is False:
        bounds["after_version"] = first
        bounds["after_timestamp"] = values.get("startingTimestamp")
    else:
        bounds["starting_version"] = first
        bounds["starting_timestamp"] = values.get("startingTimestamp")
    end = values.get("endingTimestamp")
    if flag(values, "endingBoundInclusive") is False:
        if last is not None:
            last = _version_before(last)
        if end is not None:
            end = from_micros(to_micros(end, up=True) - 1)
    bounds["ending_version"], bounds["ending_timestamp"] = last, end
    bounds["content"] = values.get("changeContent", "changes")
    bounds["schema"] = values.get("changeSchema", "end")
    bounds["expired"] = values.get("changeExpired", "error")
    return bounds


def by_name(
    given: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options under their proper names, and those of the storage.

    Raises:
        UnsupportedFeatureError: a name that there is not.
    """
    values: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    for written, value in given.items():
        if folded(written).startswith(_PREFIX):
            key = written[len(_PREFIX) :]
            add_text_option(storage, _HADOOPS_NAMES.get(folded(key), key), value)
            continue
        name = names.get(option_key(written))
        if name is None:
            raise UnsupportedFeatureError(
                f"there is no option {written!r}; there are {', '.join(names.values())}"
                f"{did_you_mean(written, names.values())}",
                [f"option:{written}"],
            )
        if value is not None:
            values[name] = value
    return values, storage


def storage_given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping `storageOptions`. Raises InvalidArgumentError: Spark made text of it."""
    given: Any = values.get("storageOptions", {})
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"storageOptions is {given!r:.100}; it is a mapping, which only Python can give. Give "
            "storage.<key> for each of its keys"
        )
    return given


def option_key(name: str) -> str:
    """A name as it is compared."""
    return folded(name).replace("_", "")


def pop_option(options: dict[str, Any], name: str) -> Any:
    """Take an option out, in whatever way its name is written; None: there is none."""
    value = None
    for written in [each for each in options if option_key(each) == option_key(name)]:
        value = options.pop(written)
    return value


def check_not_clustered(options: Mapping[str, Any]) -> None:
    """Refuse `clusterBy`: UnsupportedFeatureError."""
    if CLUSTERING_COLUMNS in options:
        raise UnsupportedFeatureError(
            "clusterBy is not supported on tablefmt tables; cluster() orders the rows of a table",
            ["spark:clusterBy"],
        )


def pop_partition_by(options: dict[str, Any]) -> list[str]:
    """Take out what a table is to be partitioned by: what `partitionBy` was given, or else what the
    option of that name has between commas."""
    told, option = options.pop(PARTITION_COLUMNS, None), pop_option(options, "partitionBy")
    names: list[str] = json.loads(told) if told else []
    return names or [name.strip() for name in (option or "").split(",") if name.strip()]


def _files(values: Mapping[str, Any]) -> FileOptions:
    codec = folded(str(values.get("compression", "zstd")))
    if codec not in COMPRESSIONS:
        raise InvalidArgumentError(f"compression is {codec!r}; it is {', '.join(COMPRESSIONS)}")
    return FileOptions(
        max_records=_count(values, "maxRecordsPerFile"),
        target_file_size=size_of(values, "targetFileSize"),
        optimize=flag(values, "optimizeWrite"),
        compression=codec,
    )


def _count(values: Mapping[str, Any], name: str) -> int | None:
    """A number of rows; 0 and less mean no limit, as in Spark."""
    if name not in values:
        return None
    number = number_in_text(values[name])
    if number is None:
        raise InvalidArgumentError(f"{name} is {values[name]!r}; it is a whole number")
    if number >= 1 << 62:
        raise InvalidArgumentError(f"{name} is {number}, which is too large")
    return max(number, 0) or None


def size_of(values: Mapping[str, Any], name: str) -> int | None:
    """A number of bytes, or None if there is no such option. Raises InvalidArgumentError."""
    if name not in values:
        return None
    match = _SIZE.fullmatch(str(values[name]))
    size = int(match[1]) << _UNITS[(match[2] or "").lower()] if match else 0
    if not 0 < size < 1 << 50:
        raise InvalidArgumentError(
            f"{name} is {values[name]!r}; it is a number of bytes from 1, or text such as '128mb'"
        )
    return size


def flag(values: Mapping[str, Any], name: str) -> bool | None:
    """True or false, or None if there is no such option. Raises InvalidArgumentError."""
    if name not in values:
        return None
    text = folded(str(values[name]))
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"{name} is {values[name]!r}; it is true or false")
    return text == "true"


def _application(values: Mapping[str, Any]) -> tuple[str, int] | None:
    if "application" in values:
        application: tuple[str, int] = values["application"]
        return application
    if "txnAppId" not in values and "txnVersion" not in values:
        return None
    try:
        name, given = str(values["txnAppId"]), values["txnVersion"]
    except KeyError as error:
        raise InvalidArgumentError(f"{error} is missing: give txnAppId and txnVersion") from None
    # By its text: a fraction is no version, and is not cut to one.
    version = number_in_text(given)
    if version is None:
        raise InvalidArgumentError(f"txnVersion is {given!r}; it is a whole number")
    return name, version


def _user_metadata(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"userMetadata": str(value)}


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"deadline is {value!r}; it is a number of seconds") from None
