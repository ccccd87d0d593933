"""Delta's session settings, and their meaning for tablefmt tables.

`SETTINGS` are obeyed or refused. `IDLE` have no effect, each for a reason. Any other name behind
the prefix is logged once as unknown.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.delta_properties import DELTA
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.model.peer_properties import translate_properties
from tablefmt.model.properties import PROPERTIES
from tablefmt.spark.entry import iceberg_settings
from tablefmt.spark.pyspark_objects import Session, java_conf
from tablefmt.spark.spark_options import flag, option_key

PREFIX = "spark.databricks.delta."
DEFAULTS = "properties.defaults."


@dataclass(frozen=True, slots=True)
class Setting:
    """The meaning of one of Delta's settings here."""

    means: str
    """The effect of a setting that is applied, or the alternative to one that is rejected."""
    refused: Callable[[str], bool] | None = None
    """Returns whether a value is rejected. None: the setting is applied."""


def _true(value: str) -> bool:
    return folded(value) == "true"


def _false(value: str) -> bool:
    return folded(value) == "false"


SETTINGS: Mapping[str, Setting] = {
    "schema.autoMerge.enabled": Setting(
        "true: writes have the option mergeSchema, INSERT and MERGE are WITH SCHEMA EVOLUTION"
    ),
    "retentionDurationCheck.enabled": Setting(
        "false: VACUUM may remove files that transactions under way may need"
    ),
    DEFAULTS: Setting("before the name of a property: every new table has it"),
    "write.txnAppId": Setting("with write.txnVersion: every write has both options, no stream"),
    "write.txnVersion": Setting("with write.txnAppId: every write has both options, no stream"),
    "write.txnVersion.autoReset.enabled": Setting(
        "set write.txnVersion anew before each write: a write does not change a setting", _true
    ),
    "commitInfo.userMetadata": Setting("every write has the option userMetadata"),
    "replaceWhere.constraintCheck.enabled": Setting("false: new rows need not match replaceWhere"),
    "replaceWhere.dataColumns.enabled": Setting(
        "false: replaceWhere takes no other columns than those that partition the table"
    ),
    "dynamicPartitionOverwrite.enabled": Setting(
        "set spark.sql.sources.partitionOverwriteMode to static", _false
    ),
}
"""Settings by the name without `PREFIX`."""

_LAYOUT = "set the property targetFileSize, optimizeWrite or autoCompact of the table"
_ENGINE = "it tunes how Delta runs, and changes no result"
_STRICT = "tablefmt always checks this"
_DELETES = "the property deleteMode of the table decides"

IDLE: Mapping[str, str] = {
    "autoCompact.enabled": _LAYOUT,
    "autoCompact.maxFileSize": _LAYOUT,
    "autoCompact.minNumFiles": _LAYOUT,
    "optimize.maxFileSize": _LAYOUT,
    "optimize.minFileSize": _LAYOUT,
    "optimizeWrite.binSize": _LAYOUT,
    "optimizeWrite.enabled": _LAYOUT,
    "checkpoint.partSize": _ENGINE,
    "merge.optimizeInsertOnlyMerge.enabled": _ENGINE,
    "merge.repartitionBeforeWrite.enabled": _ENGINE,
    "optimize.maxThreads": _ENGINE,
    "optimize.repartition.enabled": _ENGINE,
    "snapshotPartitions": _ENGINE,
    "stats.skipping": _ENGINE,
    "vacuum.parallelDelete.enabled": _ENGINE,
    "vacuum.parallelDelete.parallelism": _ENGINE,
    "schema.typeCheck.enabled": _STRICT,
    "state.corruptionIsFatal": _STRICT,
    "delete.deletionVectors.persistent": _DELETES,
    "merge.deletionVectors.persistent": _DELETES,
    "update.deletionVectors.persistent": _DELETES,
    "stats.collect": "the property statsColumns of the table decides",
    "stalenessLimit": "a read always sees the newest version",
    "vacuum.logging.enabled": "a vacuum that deletes files always commits a version",
}
"""Settings without an effect by the name without `PREFIX`, and the reason."""

_NAME = re.compile(re.escape(PREFIX) + r"([^\s,\[\]]+)")
_ICEBERG = re.compile(r"spark\.(?:sql\.iceberg|wap)\.[^\s,\[\]]+")
_log = logging.getLogger("tablefmt.spark")
_told: set[str] = set()


def remark_on(name: str) -> str:
    """Return what to tell of a setting that is not obeyed; "" if it is obeyed. Pure."""
    if name in SETTINGS or name.startswith(DEFAULTS):
        return ""
    if name in IDLE:
        return f"{PREFIX}{name} has no effect on tablefmt tables: {IDLE[name]}"
    return (
        f"{PREFIX}{name} has no effect on tablefmt tables, which do not know it"
        f"{did_you_mean(name, [*SETTINGS, *IDLE])}"
    )


def _remark_once(names: Iterable[str]) -> None:
    for name in names:
        text = remark_on(name)
        if text and name not in _told:
            _told.add(name)
            _log.log(logging.INFO if name in IDLE else logging.WARNING, "%s", text)


def _keys(spark: Session) -> str:
    """Return the names of the session's settings as one text, in one call."""
    of_jvm = java_conf(spark)
    return of_jvm.getAllAsJava().keySet().toString() if of_jvm else " ".join(spark.conf.getAll)


def _check_icebergs(spark: Session, keys: str) -> None:
    """Log Iceberg's settings that have no effect. Raises UnsupportedFeatureError for others."""
    for name in _ICEBERG.findall(keys):
        value = spark.conf.get(name, None)
        if value and name in iceberg_settings.REFUSED:
            raise UnsupportedFeatureError(
                f"{name} is {value!r}, which tablefmt tables do not support: "
                f"{iceberg_settings.REFUSED[name]}. Unset it",
                [f"setting:{name}"],
            )
        text = "" if name.startswith("spark.wap.") else iceberg_settings.remark_on(name)
        if text and name not in _told:
            _told.add(name)
            known = name.removeprefix(iceberg_settings.PREFIX) in iceberg_settings.IDLE
            _log.log(logging.INFO if known else logging.WARNING, "%s", text)


def check_settings(spark: Session) -> list[str]:
    """Check that no setting would change the result of a write, and log those without an effect.

    Iceberg's settings are checked too.

    Returns:
        The names of Delta's settings in the session.

    Raises:
        UnsupportedFeatureError: a setting would change it.
    """
    keys = _keys(spark)
    names = _NAME.findall(keys)
    _check_icebergs(spark, keys)
    _remark_once(names)
    for name, setting in SETTINGS.items():
        if setting.refused is None or name not in names:
            continue
        value = spark.conf.get(PREFIX + name, None)
        if value is not None and setting.refused(value):
            raise UnsupportedFeatureError(
                f"{PREFIX}{name} is {value!r}, which tablefmt tables do not support; unset it, and "
                f"{setting.means}",
                [f"setting:{PREFIX}{name}"],
            )
    return names


COMMIT_SETTINGS = {
    "commitInfo.userMetadata": "userMetadata",
    "write.txnAppId": "txnAppId",
    "write.txnVersion": "txnVersion",
}
"""The option of a write by the setting that every write obeys."""


def with_commit_settings(
    spark: Session, options: Mapping[str, Any], *, stream: bool = False
) -> dict[str, Any]:
    """Return the options of a write, with those of its commit that the session's settings add.

    A batch of a stream has a number of its own, so only a write has that of the settings.

    Raises:
        UnsupportedFeatureError: as `check_settings`.
    """
    names = check_settings(spark)
    given = {option_key(name) for name in options}
    if "application" in given or stream:
        given |= {"txnappid", "txnversion"}
    found = dict(options)
    for name, option in COMMIT_SETTINGS.items():
        value = spark.conf.get(PREFIX + name, None) if name in names else None
        if value and option_key(option) not in given:
            found[option] = value
    return found


def with_settings(
    spark: Session, options: Mapping[str, Any], *, stream: bool = False
) -> dict[str, Any]:
    """Return the options of a write, with the options that the session's settings add.

    Raises:
        UnsupportedFeatureError: as `check_settings`.
    """
    options = with_commit_settings(spark, options, stream=stream)
    given = {option_key(name) for name in options}
    if given & {"mergeschema", "overwriteschema"} or not merges_schemas(spark):
        return dict(options)
    return {**options, "mergeSchema": True}


def merges_schemas(spark: Session) -> bool:
    """Return whether the session's settings let writes add columns."""
    icebergs = spark.conf.get(iceberg_settings.MERGE_SCHEMA, None)
    return bool(_flag(spark, "schema.autoMerge.enabled")) or folded(icebergs or "") == "true"


def checks_replacement(spark: Session) -> bool:
    """Return whether new rows have to match replaceWhere."""
    return _flag(spark, "replaceWhere.constraintCheck.enabled") is not False


def check_replaced_columns(spark: Session, where: str) -> None:
    """Check that the session lets replaceWhere depend on values of rows.

    Raises:
        UnsupportedFeatureError: it does not.
    """
    name = "replaceWhere.dataColumns.enabled"
    if _flag(spark, name) is False:
        raise UnsupportedFeatureError(
            f"{PREFIX}{name} is false, and the condition {where!r:.200} needs other columns than "
            "those that partition the table; unset it, or name only partition columns",
            [f"setting:{PREFIX}{name}"],
        )


def may_break_transactions(spark: Session) -> bool:
    """Return whether the session's settings let VACUUM break running transactions."""
    return _flag(spark, "retentionDurationCheck.enabled") is False


def default_properties(spark: Session) -> dict[str, str]:
    """Return the properties that the session gives every new table.

    Raises:
        UnsupportedFeatureError: a property that tablefmt tables do not have.
    """
    found: dict[str, str] = {}
    start = PREFIX + DEFAULTS
    of_jvm = java_conf(spark)
    # One call into the JVM per setting would take longer than writing a small table.
    if of_jvm is not None and start not in of_jvm.getAllAsJava().keySet().toString():
        return found
    for name, value in spark.conf.getAll.items():
        if not name.startswith(start):
            continue
        try:
            found |= translate_properties({DELTA + name.removeprefix(start): value})
        except SchemaMismatchError as error:
            raise UnsupportedFeatureError(
                f"{name} is {value!r}: {str(error).rstrip('.')}; unset it, or use these properties "
                f"in TBLPROPERTIES: {', '.join(PROPERTIES)}",
                [f"setting:{name}"],
            ) from None
    return found


def _flag(spark: Session, name: str) -> bool | None:
    value = spark.conf.get(PREFIX + name, None)
    return None if value is None else flag({PREFIX + name: value}, PREFIX + name)
