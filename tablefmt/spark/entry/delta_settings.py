"""Delta's session settings, and their meaning for tablefmt tables.

`SETTINGS` is the whole list. A setting that is not in it has no effect on tablefmt tables.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.delta_properties import DELTA, translate_properties
from tablefmt.model.name_matching import folded
from tablefmt.model.properties import PROPERTIES
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
    "commitInfo.userMetadata": Setting("give each write the option userMetadata", _given),
    "replaceWhere.constraintCheck.enabled": Setting(
        "delete the rows, then append: new rows always have to match replaceWhere", _false
    ),
    "dynamicPartitionOverwrite.enabled": Setting(
        "set spark.sql.sources.partitionOverwriteMode to static", _false
    ),
}
"""Settings by the name without `PREFIX`."""


def check_settings(spark: Session) -> None:
    """Check that no setting would change the result of a write. Raises UnsupportedFeatureError."""
    for name, setting in SETTINGS.items():
        if setting.refused is None:
            continue
        value = spark.conf.get(PREFIX + name, None)
        if value is not None and setting.refused(value):
            raise UnsupportedFeatureError(
                f"{PREFIX}{name} is {value!r}, which tablefmt tables do not support; unset it, and "
                f"{setting.means}",
                [f"setting:{PREFIX}{name}"],
            )


def with_settings(spark: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a write, with the option that the session's settings add.

    Raises:
        UnsupportedFeatureError: as `check_settings`.
    """
    check_settings(spark)
    given = {option_key(name) for name in options}
    if given & {"mergeschema", "overwriteschema"} or not merges_schemas(spark):
        return dict(options)
    return {**options, "mergeSchema": True}


def merges_schemas(spark: Session) -> bool:
    """Return whether the session's settings let writes add columns."""
    return bool(_flag(spark, "schema.autoMerge.enabled"))


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
