"""Options of writes and reads. The tables below are both the parser and the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from tablefmt.changes.feed_plan import Contents
from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.literals import in_session
from tablefmt.model.argument_checks import bytes_in_text, number_in_text
from tablefmt.model.delta_properties import DELTA
from tablefmt.model.iceberg_options import with_icebergs
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.model.times import Time, from_micros, to_micros
from tablefmt.session.commit_options import CommitOptions
from tablefmt.store.location import add_text_option

OPTIONS = {
    "replaceWhere": "SQL: overwrite replaces the rows for which it is TRUE; new rows must match it",
    "replaceUsing": "names of columns: overwrite replaces the rows that equal a new row there",
    "replaceOn": "SQL over both sides: overwrite replaces the rows that make it TRUE with new ones",
    "targetAlias": "the name of the table in replaceOn; default: t",
    "partitionOverwriteMode": "static, or dynamic: overwrite replaces the partitions of the new "
    "rows; default: static, or with format() and SQL the session's setting",
    "txnAppId": "application id; with txnVersion, the write is applied exactly once",
    "txnVersion": "application version, a whole number",
    "application": "(txnAppId, txnVersion) as one option",
    "maxRecordsPerFile": "most rows per file; default: spark.sql.files.maxRecordsPerFile",
    "targetFileSize": "approximate bytes per file; a number, or text such as 128mb",
    "optimizeWrite": "true: shuffle rows first, so that each partition gets few files",
    "compression": "zstd (the default), snappy, gzip, lz4_raw or none",
    "userMetadata": "stored in the log: a mapping of JSON values, or text",
    "deadline": "seconds after which the commit gives up",
    "storageOptions": "a mapping, as in tablefmt.open(); storage.<key> sets a single key,"
    " with dots for nested keys: storage.client_kwargs.region_name",
    "mergeSchema": "true: add columns that the table lacks, and widen types",
    "overwriteSchema": "true: overwrite replaces the table's columns by those of the new rows, and "
    "the partitioning by partitionBy; without partitionBy, a DataFrameWriter removes it",
}
"""Options and their meaning. Case and underscores of names are ignored."""


class NamedOptions(TypedDict, total=False):
    """`OPTIONS` as keywords."""

    replaceWhere: str
    replaceUsing: str
    replaceOn: str
    targetAlias: str
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
    """`OPTIONS` as keywords, in camel case or snake case, with types for editors.

    `**{"storage.<key>": …}` is allowed, too.
    """

    replace_where: str
    replace_using: str
    replace_on: str
    target_alias: str
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


assert list(NamedOptions.__annotations__) == list(OPTIONS), "every option needs a keyword"


class RangeKeywords(TypedDict, total=False):
    """Keywords of `Table.changes`."""

    starting_version: int | str | None
    after_version: int | str | None
    starting_timestamp: Time | None
    after_timestamp: Time | None
    ending_version: int | str | None
    ending_timestamp: Time | None
    content: Contents
    schema: Literal["end", "start"]
    expired: Literal["error", "snapshot"]
    columns: Sequence[str] | None
    where: Condition


CHANGE_OPTIONS = {
    "startingVersion": "the first version of the range; or",
    "startingTimestamp": "the start of the range as a time",
    "endingVersion": "the last version of the range; default: the newest",
    "endingTimestamp": "or the end of the range as a time",
    "startingBoundInclusive": "false: exclude the given start",
    "endingBoundInclusive": "false: exclude the given end",
    "changeContent": "changes, net or append",
    "changeSchema": "end or start: the version with the columns of the rows",
    "changeExpired": "error or snapshot: what to do if the start of the range has expired",
    "changeColumns": "false: leave out the columns about changes and commits",
}
"""Options of a range of changes. They need readChangeFeed."""

READ_OPTIONS = {
    "versionAsOf": "the version or the tag to read",
    "timestampAsOf": "a point in time instead, ISO 8601; text without a zone is in the session's "
    "time zone (TIM-5)",
    "readChangeFeed": "true: read the row changes of a range instead of the rows of a version",
    "readChangeData": "same as readChangeFeed",
    **CHANGE_OPTIONS,
    "path": "the location of the table",
    "storageOptions": "a mapping, as in tablefmt.open(); storage.<key> sets a single key,"
    " with dots for nested keys: storage.client_kwargs.region_name",
}
"""Options of `spark.read.format("tablefmt")`. Case and underscores are ignored."""

TIMES = ("timestampAsOf", "startingTimestamp", "endingTimestamp")
"""Options that are points in time."""

OF_STREAMS = (
    *("maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger"),
    *("skipChangeCommits", "ignoreDeletes"),
)
"""Options that only streams have."""

_SCHEMA_CHANGES = "load the stream again after a change of columns; it continues with the new ones"

DELTA_OPTIONS: Mapping[str, str] = {
    "ignoreChanges": "use skipChangeCommits to skip updates and deletes, or readChangeFeed",
    "ignoreFileDeletion": "use ignoreDeletes, or skipChangeCommits",
    "withEventTimeOrder": "start the stream at a version, or sort the rows of its first batch",
    "schemaTrackingLocation": _SCHEMA_CHANGES,
    "schemaLocation": _SCHEMA_CHANGES,
    "allowSourceColumnDrop": _SCHEMA_CHANGES,
    "allowSourceColumnRename": _SCHEMA_CHANGES,
    "allowSourceColumnTypeChange": _SCHEMA_CHANGES,
    "streamingSourceTrackingId": _SCHEMA_CHANGES,
    "excludeRegex": "filter the rows of the stream",
    "failOnDataLoss": "a stream always fails if a version that it needs was removed",
    "dataChange": "to write rows anew without a change of data, use OPTIMIZE, or compact()",
    "useNullIntolerantEqualityWithDPO": "use replaceUsing, for which NULL equals nothing",
    "parquet.writer.version": "leave it out: readers need not know it",
    "writePartitionColumns": "leave it out: data files have all columns",
}
"""Delta's options without a counterpart, and what to do instead."""

PARTITION_COLUMNS, CLUSTERING_COLUMNS = "__partition_columns", "__clustering_columns"
"""Spark's names for the arguments of `partitionBy` and `clusterBy`, as JSON arrays."""

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4_raw", "none", "uncompressed")

_PREFIX = "storage."
_HADOOPS_NAMES = {"access.key": "key", "secret.key": "secret", "session.token": "token"}
"""Hadoop's names for credentials. Plans of CREATE TABLE hide options with such names only."""
_NAMES = {folded(name): name for name in OPTIONS}
_READ_NAMES = {folded(name): name for name in READ_OPTIONS}
_DELTAS = {folded(name): instead for name, instead in DELTA_OPTIONS.items()}
_LATER = {folded(name): name for name in OF_STREAMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options of data files. None: not given."""

    max_records: int | None = None
    target_file_size: int | None = None
    """Bytes."""
    optimize: bool | None = None
    compression: str = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Checked options of a write."""

    commit: CommitOptions
    files: FileOptions = field(default_factory=FileOptions)
    replace_where: str | None = None
    replace_using: tuple[str, ...] = ()
    replace_on: str | None = None
    target_alias: str | None = None
    dynamic_partitions: bool = False
    merge_schema: bool = False
    overwrite_schema: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    digest: str | None = None
    """Digest of the rows of an application version. None: unknown."""

    @property
    def part(self) -> str | None:
        """Return the option that makes an overwrite replace a part of the rows. None: none."""
        given = {
            "replaceWhere": self.replace_where,
            "replaceUsing": self.replace_using,
            "replaceOn": self.replace_on,
            "partitionOverwriteMode": self.dynamic_partitions,
        }
        return next((name for name, value in given.items() if value), None)


def parse_options(given: Mapping[str, Any]) -> WriteOptions:
    """Return the checked options of a write.

    Raises:
        UnsupportedFeatureError: an unknown option, or one that is not supported yet.
        InvalidRangeError: an invalid value.
    """
    values, storage = by_name(given, _NAMES)
    overwrite_schema = bool(flag(values, "overwriteSchema"))
    mode = folded(str(values.get("partitionOverwriteMode", "static")))
    if mode not in ("static", "dynamic"):
        raise InvalidArgumentError(
            f"partitionOverwriteMode is {mode!r}; expected static or dynamic"
        )
    parts: list[str] = [
        name for name in ("replaceWhere", "replaceUsing", "replaceOn") if name in values
    ]
    parts += ["partitionOverwriteMode=dynamic"] * (mode == "dynamic")
    if len(parts) > 1:
        raise InvalidArgumentError(f"{' and '.join(parts)} exclude each other; give one")
    if overwrite_schema and parts:
        raise InvalidArgumentError(
            "overwriteSchema replaces the columns of the whole table, so it excludes replaceWhere, "
            "replaceUsing, replaceOn and partitionOverwriteMode=dynamic"
        )
    if "targetAlias" in values and "replaceOn" not in values:
        raise InvalidArgumentError("targetAlias names the table in replaceOn; give replaceOn, too")
    return WriteOptions(
        commit=CommitOptions(
            application=_application(values),
            user_metadata=_user_metadata(values.get("userMetadata")),
            deadline=_number(values.get("deadline")),
        ),
        files=_files(values),
        replace_where=values.get("replaceWhere"),
        replace_using=_names(values, "replaceUsing"),
        replace_on=values.get("replaceOn"),
        target_alias=values.get("targetAlias"),
        dynamic_partitions=mode == "dynamic",
        merge_schema=bool(flag(values, "mergeSchema")),
        overwrite_schema=overwrite_schema,
        storage_options={**storage, **storage_given(values)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Checked options of a read."""

    path: str | None = None
    version: int | str | None = None
    timestamp: str | None = None
    changes: RangeKeywords | None = None
    """Row changes to read. None: read the rows of a version."""
    change_columns: bool = True
    """False: the rows of changes have the columns of the table alone."""
    storage_options: Mapping[str, Any] = field(default_factory=dict)


def parse_read_options(given: Mapping[str, Any], zone: str | None) -> ReadOptions:
    """Return the checked options of a read.

    Args:
        given: the options, as they were written.
        zone: the session's time zone, for times without a zone. None: unknown (TIM-5).

    Raises:
        UnsupportedFeatureError: an unknown option, or one of streams; or a time without a zone, if
            the session's time zone is unknown.
        InvalidRangeError: both a version and a timestamp, or an invalid value.
    """
    for written in with_icebergs(given):
        later = _LATER.get(option_key(written))
        if later is not None:
            raise UnsupportedFeatureError(
                f"{later} is an option of streams; use it with spark.readStream",
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
        change_columns=flag(values, "changeColumns") is not False,
        storage_options={**storage, **storage_given(values)},
    )


def _version(values: Mapping[str, Any], name: str) -> int | str | None:
    """Return a version: a number, or the name of a tag (TAG-1)."""
    if name not in values:
        return None
    number = number_in_text(values[name])
    return str(values[name]) if number is None else number


def _version_before(end: int | str) -> int:
    """Return the last version of a range that excludes its end. Raises InvalidRangeError."""
    if isinstance(end, str):
        raise InvalidRangeError(
            f"endingVersion={end!r} and endingBoundInclusive=false: give the version as a number"
        )
    if end == 0:
        raise InvalidRangeError("endingVersion=0 and endingBoundInclusive=false leave no version")
    return end - 1


def _changes(values: Mapping[str, Any]) -> RangeKeywords | None:
    """Return the requested range of changes, if any. Raises InvalidRangeError."""
    asked = flag(values, "readChangeFeed") or flag(values, "readChangeData")
    others = [name for name in CHANGE_OPTIONS if name in values]
    if not asked:
        if others:
            raise InvalidRangeError(f"{', '.join(others)}: give readChangeFeed=true as well")
        return None
    if "versionAsOf" in values or "timestampAsOf" in values:
        raise InvalidRangeError(
            "versionAsOf and timestampAsOf select one version; for a range of changes, use "
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
    """Return options under their proper names, and storage options by key.

    Raises:
        UnsupportedFeatureError: an unknown option.
    """
    values: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    for written, value in with_icebergs(given).items():
        if folded(written).startswith(_PREFIX):
            key = written[len(_PREFIX) :]
            add_text_option(storage, _HADOOPS_NAMES.get(folded(key), key), value)
            continue
        name = names.get(option_key(written))
        if name is None and option_key(written) in _DELTAS:
            raise UnsupportedFeatureError(
                f"the option {written} of Delta is not supported on tablefmt tables; "
                f"{_DELTAS[option_key(written)]}",
                [f"option:{written}"],
            )
        if name is None and folded(written).startswith(DELTA):
            raise UnsupportedFeatureError(
                f"{written!r} is a table property of Delta, not an option of tablefmt; set it with "
                "TBLPROPERTIES in CREATE TABLE or ALTER TABLE, which translates it",
                [f"option:{written}"],
            )
        if name is None:
            raise UnsupportedFeatureError(
                f"there is no option {written!r}; known options: {', '.join(names.values())}"
                f"{did_you_mean(written, names.values())}",
                [f"option:{written}"],
            )
        if value is not None:
            values[name] = value
    return values, storage


def storage_given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping `storageOptions`.

    Raises:
        InvalidArgumentError: it is not a mapping, for example because Spark converted it to text.
    """
    given: Any = values.get("storageOptions", {})
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"storageOptions is {given!r:.100}; expected a mapping, which only Python can pass. "
            "Use storage.<key> for each of its keys"
        )
    return given


def option_key(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return folded(name).replace("_", "")


def pop_option(options: dict[str, Any], name: str) -> Any:
    """Remove an option, in any spelling of its name, and return its value. None if missing."""
    value = None
    for written in [each for each in options if option_key(each) == option_key(name)]:
        value = options.pop(written)
    return value


def check_not_clustered(options: Mapping[str, Any]) -> None:
    """Check that `clusterBy` was not used. Raises UnsupportedFeatureError."""
    if CLUSTERING_COLUMNS in options:
        raise UnsupportedFeatureError(
            "clusterBy is not supported in a write to a path; use saveAsTable, or set the order "
            "of the table with alter.set_clustering or CLUSTER BY",
            ["spark:clusterBy"],
        )


def pop_partition_by(options: dict[str, Any]) -> list[str]:
    """Remove the partition columns from options and return them.

    They are the arguments of `partitionBy`, or else names in the option `partitionBy`, separated by
    commas.
    """
    columns, option = options.pop(PARTITION_COLUMNS, None), pop_option(options, "partitionBy")
    names: list[str] = json.loads(columns) if columns else []
    if names:
        return [call_in(name) or name for name in names]
    return [name.strip() for name in _COMMA.split(option or "") if name.strip()]


_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)(?![^()]*\))")
"""A comma between names: not inside backticks, and not inside parentheses."""

_QUOTED_CALL = re.compile(r"`(\w+\(.*\))`", re.DOTALL)


def call_in(name: str) -> str | None:
    """Return the transform in a word in backticks; None if it is another name."""
    match = _QUOTED_CALL.fullmatch(name)
    return None if match is None else match[1].replace("``", "`")


def _files(values: Mapping[str, Any]) -> FileOptions:
    codec = folded(str(values.get("compression", "zstd")))
    if codec not in COMPRESSIONS:
        raise InvalidArgumentError(
            f"compression is {codec!r}; expected one of {', '.join(COMPRESSIONS)}"
        )
    return FileOptions(
        max_records=_count(values, "maxRecordsPerFile"),
        target_file_size=size_of(values, "targetFileSize"),
        optimize=flag(values, "optimizeWrite"),
        compression=codec,
    )


def _names(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the columns of an option. Raises InvalidArgumentError if it names none."""
    if name not in values:
        return ()
    found = tuple(filter(None, map(unquoted, _COMMA.split(str(values[name])))))
    if not found:
        raise InvalidArgumentError(f"{name} is {values[name]!r}; expected names of columns")
    return found


def unquoted(name: str) -> str:
    """Return a name without blanks and backticks around it."""
    text = name.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == "`"
    return text[1:-1].replace("``", "`") if quoted else text


def _count(values: Mapping[str, Any], name: str) -> int | None:
    """Return a number of rows. None for 0 and less, which mean no limit, as in Spark."""
    if name not in values:
        return None
    number = number_in_text(values[name])
    if number is None:
        raise InvalidArgumentError(f"{name} is {values[name]!r}; expected a whole number")
    if number >= 1 << 62:
        raise InvalidArgumentError(f"{name} is {number}, which is too large")
    return max(number, 0) or None


def size_of(values: Mapping[str, Any], name: str) -> int | None:
    """Return a number of bytes. None if the option is missing. Raises InvalidArgumentError."""
    if name not in values:
        return None
    size = bytes_in_text(str(values[name]))
    if size is None:
        raise InvalidArgumentError(
            f"{name} is {values[name]!r}; expected a number of bytes from 1, or text such as "
            "'128mb'"
        )
    return size


def flag(values: Mapping[str, Any], name: str) -> bool | None:
    """Return a boolean option. None if it is missing. Raises InvalidArgumentError."""
    if name not in values:
        return None
    text = folded(str(values[name]))
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"{name} is {values[name]!r}; expected true or false")
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
        raise InvalidArgumentError(
            f"{error} is missing; give both txnAppId and txnVersion"
        ) from None
    # Parsed as text, so that a fraction is rejected instead of truncated.
    version = number_in_text(given)
    if version is None:
        raise InvalidArgumentError(f"txnVersion is {given!r}; expected a whole number")
    return name, version


def _user_metadata(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"userMetadata": str(value)}


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"deadline is {value!r}; expected a number of seconds") from None
