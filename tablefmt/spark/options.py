"""Options of a write: the table below is both the parser and the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.operations.context import CommitOptions

OPTIONS = {
    "replaceWhere": "SQL over partition columns: overwrite replaces the rows for which it holds",
    "partitionOverwriteMode": "static (the default), or dynamic: overwrite replaces the partitions "
    "that the new rows are in",
    "txnAppId": "application id; with txnVersion, the write is applied once",
    "txnVersion": "application version, a whole number",
    "application": "(txnAppId, txnVersion) in one",
    "userMetadata": "kept in the log: a mapping of JSON values, or text",
    "deadline": "seconds after which to give up committing",
    "storageOptions": "a mapping, as of tablefmt.open(); storage.<key> gives one of them",
    "mergeSchema": "false; not supported yet",
    "overwriteSchema": "false; not supported yet",
}
"""Names as people write them: matched with case and underscores ignored."""

_PREFIX = "storage."
_NAMES = {name.casefold(): name for name in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What `write` was asked for, checked."""

    commit: CommitOptions
    replace_where: str | None = None
    dynamic_partitions: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict)


def parse_options(given: Mapping[str, Any]) -> WriteOptions:
    """Options by name.

    Raises:
        UnsupportedFeatureError: a name that there is not, or one that is not supported yet.
        InvalidRangeError: a value that makes no sense.
    """
    found: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    for written, value in given.items():
        if written.casefold().startswith(_PREFIX):
            storage[written[len(_PREFIX) :]] = value
            continue
        name = _NAMES.get(written.casefold().replace("_", ""))
        if name is None:
            raise UnsupportedFeatureError(
                f"there is no option {written!r}; there are {', '.join(OPTIONS)}",
                [f"option:{written}"],
            )
        if value is not None:
            found[name] = value
    for name in ("mergeSchema", "overwriteSchema"):
        if str(found.get(name, False)).casefold() != "false":
            raise UnsupportedFeatureError(f"{name} is not supported yet", [f"option:{name}"])
    mode = str(found.get("partitionOverwriteMode", "static")).casefold()
    if mode not in ("static", "dynamic"):
        raise InvalidRangeError(f"partitionOverwriteMode is {mode!r}; it is static or dynamic")
    if mode == "dynamic" and "replaceWhere" in found:
        raise InvalidRangeError(
            "replaceWhere and partitionOverwriteMode=dynamic both say what to replace; give one"
        )
    return WriteOptions(
        commit=CommitOptions(
            application=_application(found),
            user_metadata=_user_metadata(found.get("userMetadata")),
            deadline=_number(found.get("deadline")),
        ),
        replace_where=found.get("replaceWhere"),
        dynamic_partitions=mode == "dynamic",
        storage_options={**storage, **found.get("storageOptions", {})},
    )


def _application(found: Mapping[str, Any]) -> tuple[str, int] | None:
    if "application" in found:
        application: tuple[str, int] = found["application"]
        return application
    if "txnAppId" not in found and "txnVersion" not in found:
        return None
    try:
        return str(found["txnAppId"]), int(found["txnVersion"])
    except KeyError as error:
        raise InvalidRangeError(f"{error} is missing: give txnAppId and txnVersion") from None
    except (TypeError, ValueError):
        raise InvalidRangeError(
            f"txnVersion is {found['txnVersion']!r}; it is a whole number"
        ) from None


def _user_metadata(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"userMetadata": str(value)}


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise InvalidRangeError(f"deadline is {value!r}; it is a number of seconds") from None
