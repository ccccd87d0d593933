"""Settings of Delta's that sessions carry along: what each means to a table of ours.

`SETTINGS` is the whole list. A setting that is not in it changes no result: it is for Delta alone.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.model.name_matching import folded
from tablefmt.model.properties import PROPERTIES
from tablefmt.spark.pyspark_objects import Session, java_conf
from tablefmt.spark.spark_options import flag, option_key

PREFIX = "spark.databricks.delta."
DEFAULTS = "properties.defaults."


@dataclass(frozen=True, slots=True)
class Setting:
    """What one of Delta's settings means here."""

    means: str
    """Where it is obeyed: what it does. Where it is refused: what to do instead."""
    refused: Callable[[str], bool] | None = None
    """Tells the values that are refused; None: it is obeyed."""


def _given(value: str) -> bool:
    return value != ""


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
    "write.txnAppId": Setting("give each write the options txnAppId and txnVersion", _given),
    "write.txnVersion": Setting("give each write the options txnAppId and txnVersion", _given),
    "replaceWhere.constraintCheck.enabled": Setting(
        "delete the rows, then append: new rows always have to match replaceWhere", _false
    ),
    "dynamicPartitionOverwrite.enabled": Setting(
        "set spark.sql.sources.partitionOverwriteMode to static", _false
    ),
}
"""By the name behind `PREFIX`."""

KNOWN_DEFAULTS = frozenset(PROPERTIES) & {
    "appendOnly",
    "checkpointInterval",
    "deletedFileRetentionDuration",
    "isolationLevel",
    "logRetentionDuration",
}
"""Properties that mean the same in both formats."""

NO_EFFECT = frozenset({"enableChangeDataFeed", "enableDeletionVectors", "columnMapping.mode"})
"""Properties of Delta's for what every table of ours has."""


def check_settings(spark: Session) -> None:
    """Refuse settings that would make a write another one. Raises UnsupportedFeatureError."""
    for name, setting in SETTINGS.items():
        if setting.refused is None:
            continue
        value = spark.conf.get(PREFIX + name, None)
        if value is not None and setting.refused(value):
            raise UnsupportedFeatureError(
                f"{PREFIX}{name} is {value!r}, which tables of tablefmt do not obey; unset it, and "
                f"{setting.means}",
                [f"setting:{PREFIX}{name}"],
            )


def with_settings(spark: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a write as the session's settings add to them.

    Raises:
        UnsupportedFeatureError: as `check_settings`.
    """
    check_settings(spark)
    said = {option_key(name) for name in options}
    if said & {"mergeschema", "overwriteschema"} or not merges_schemas(spark):
        return dict(options)
    return {**options, "mergeSchema": True}


def merges_schemas(spark: Session) -> bool:
    """Return whether the session says that writes bring new columns."""
    return bool(_flag(spark, "schema.autoMerge.enabled"))


def may_break_transactions(spark: Session) -> bool:
    """Return whether the session says that VACUUM need not spare transactions under way."""
    return _flag(spark, "retentionDurationCheck.enabled") is False


def default_properties(spark: Session) -> dict[str, str]:
    """Return the properties that the session gives every new table.

    Raises:
        UnsupportedFeatureError: a property that tables of ours have not.
    """
    found: dict[str, str] = {}
    start = PREFIX + DEFAULTS
    of_jvm = java_conf(spark)
    # A call into the JVM for each setting would cost more than a small table.
    if of_jvm is not None and start not in of_jvm.getAllAsJava().keySet().toString():
        return found
    for name, value in spark.conf.getAll.items():
        if not name.startswith(start):
            continue
        known = name.removeprefix(start)
        if known in KNOWN_DEFAULTS:
            found[known] = value
        elif known not in NO_EFFECT:
            raise UnsupportedFeatureError(
                f"{name} is {value!r}, and tables of tablefmt have no such property; unset it, or "
                f"give the table its own TBLPROPERTIES: {', '.join(PROPERTIES)}",
                [f"setting:{name}"],
            )
    return found


def _flag(spark: Session, name: str) -> bool | None:
    value = spark.conf.get(PREFIX + name, None)
    return None if value is None else flag({PREFIX + name: value}, PREFIX + name)
