"""Delta's session settings, and their meaning for tablefmt tables.

Writes obey or refuse `SETTINGS`. Streams and reads of changes refuse `OF_READS`. `IDLE`, and names
that begin as in `_IDLE_FAMILIES`, have no effect, each for a reason. Any other name behind the
prefix is logged once as unknown.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
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


def _not_always(value: str) -> bool:
    return folded(value) != "always"


def _not_end(value: str) -> bool:
    return folded(value) != "endversion"


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
    "updateAndMergeCastingFollowsAnsiEnabledFlag": Setting(
        "set spark.sql.storeAssignmentPolicy, which decides about casts of new values", _true
    ),
    "typeWidening.allowAutomaticWidening": Setting(
        "leave mergeSchema out of writes whose types shall not change", _not_always
    ),
    "merge.preserveNullSourceStructs": Setting("replace NULL structs in the query", _false),
    "insert.preserveNullSourceStructs": Setting("replace NULL structs in the query", _false),
}
"""Settings by the name without `PREFIX`."""

OF_READS: Mapping[str, Setting] = {
    "withEventTimeOrder.enabled": Setting(
        "start the stream at a version, or sort the rows of its first batch", _true
    ),
    "changeDataFeed.defaultSchemaModeForColumnMappingTable": Setting(
        "choose the version with the columns of a read by its option changeSchema", _not_end
    ),
}
"""Settings that streams and reads of changes refuse, by the name without `PREFIX`."""

_LAYOUT = "set the property targetFileSize, optimizeWrite or autoCompact of the table"
_ENGINE = "it tunes how Delta runs, and changes no result"
_STRICT = "tablefmt always checks this"
_DELETES = "the property deleteMode of the table decides"
_STATS = "the property statsColumns of the table decides"
_FEATURES = "tablefmt tables have no protocol versions, and features stay"
_IMPORTS = "tablefmt.import_table reads another table by its own metadata, or raises an error"
_NEWEST = "a read always sees the newest version"
_STREAMS = "a stream refuses such a change of columns, and its error says what to do"
_NAMES = "columns have ids in every table"
_OTHERS = "tablefmt tables do not have what it is about"
_CATALOG = "call tablefmt.spark.sync(spark, name) after changes by other programs"

IDLE: Mapping[str, str] = {
    "alterLocation.bypassSchemaCheck": _STRICT,
    "allowArbitraryProperties.enabled": "a name of your own needs no setting",
    "alwaysCollectStats.enabled": _STATS,
    "changeDataFeed.allowTimeTravelOptionsForSchema": "the option changeSchema of a read decides",
    "changeDataFeed.timestampOutOfRange.enabled": "a range may always end after the newest version",
    "changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": _STREAMS,
    "checkLatestSchemaOnRead": "a DataFrame keeps the version and columns that it was made with",
    "clone.replaceEnabled": "only CREATE OR REPLACE replaces a table by a clone",
    "commit.idempotencyCheck.enabled": "a commit always recognizes its own entry in the log",
    "commitInfo.enabled": "every commit has this information",
    "constraints.allowUnenforcedNotNull.enabled": _STRICT,
    "constraints.assumesDropIfExists.enabled": "write DROP CONSTRAINT IF EXISTS",
    "convertEmptyToNullForStringPartitionCol": "an empty text stays an empty text",
    "createEmptySchemaTable.enabled": "a table has at least one column",
    "delete.allowExistsSubquery": "DELETE takes EXISTS in every session",
    "delete.deletionVectors.persistent": _DELETES,
    "dml.insert.dfByName.allowImplicitCasts": "spark.sql.storeAssignmentPolicy decides about casts",
    "history.metricsEnabled": "every commit has metrics",
    "insert.byName.schemaEvolution.enabled": "INSERT BY NAME takes WITH SCHEMA EVOLUTION",
    "lastCommitVersionInSession": "read the version of a commit with DESCRIBE HISTORY t LIMIT 1",
    "maxCommitAttempts": "the option deadline of a write limits how long a commit tries",
    "merge.deletionVectors.persistent": _DELETES,
    "merge.failIfSourceChanged": "MERGE reads its source once",
    "restore.protocolDowngradeAllowed": _FEATURES,
    "replace.protocolDowngradeAllowed": _FEATURES,
    "schema.typeCheck.enabled": _STRICT,
    "skipRecordingEmptyCommits": "a write without rows makes no version",
    "stalenessLimit": _NEWEST,
    "state.corruptionIsFatal": _STRICT,
    "timeTravel.resolveOnIdentifier.enabled": "name a version with VERSION AS OF or versionAsOf",
    "timeTravel.parsing.strict": _STRICT,
    "update.deletionVectors.persistent": _DELETES,
    "vacuum.lite.enabled": "every vacuum takes the removed files from the log",
    "vacuum.logging.enabled": "a vacuum that deletes files always commits a version",
    "writeChecksumFile.enabled": "every log entry has a checksum",
    "writeChecksumFile.histogramFollowsProtocol": "every log entry has a checksum",
    "convert.useMetadataLog": _IMPORTS,
    # The names below are similar to names in SETTINGS, so no family may claim them.
    "alter.replaceColumns.safe.enabled": _NAMES,
    "alterTable.dropColumn.enabled": _NAMES,
    "columnMapping.stripMetadata": _NAMES,
    "merge.repartitionBeforeWrite.enabled": _ENGINE,
    **dict.fromkeys(
        (
            *("duplicateActionCheck.enabled", "nullPartitionCheck.throwEnabled"),
            *("dynamicPartitionOverwrite.parsePartitionValues", "partitionColumnValidity.enabled"),
            *(
                "merge.preserveNullSourceStructs.updateStar",
                "replaceWhere.dataColumnsWithCDF.enabled",
            ),
            *("replaceWhere.dataColumns.metrics.enabled", "tablePropertyConstraintsCheck.enabled"),
        ),
        _STRICT,
    ),
}
"""Settings without an effect by the name without `PREFIX`, and the reason."""

_OPTIMIZE = ("optimize.", "optimizeWrite.", "autoCompact.")
_IDLE_FAMILIES: Mapping[str, tuple[str, ...]] = {
    _LAYOUT: (*_OPTIMIZE, "clusteredTable.", "write.dataFilesToSubdir"),
    _STATS: ("stats.", "collectStats.", "liquid.", "skipping."),
    _FEATURES: ("tableFeatures.", "featureEnablement.", "rowTracking.", "backfill."),
    _IMPORTS: ("convert.", "clone.iceberg.", "import."),
    _CATALOG: ("catalog.", "hms."),
    _NAMES: ("columnMapping.", "changeColumn.", "alterTable.", "alter."),
    _STREAMS: ("streaming.", "typeWidening.", "changelogV2."),
    _STRICT: (
        *("commitValidation.", "partitionColumnValidity.", "partitionColumnChangeCheck"),
        *("generatedColumn.", "checkConstraints.", "emptyFileCheck.", "nullPartitionCheck."),
        *("numRecordsValidation.", "duplicateActionCheck.", "tablePropertyConstraintsCheck."),
        *("commandInvariantChecks", "requiredSparkConfsCheck.", "versionChecksum.", "checksum"),
        *("isDeltaTable.", "replaceWhere.dataColumns", "write.utcTimestampPartitionValues"),
        *("normalizePartitionValuesOnRead", "failOnPartitionValueParsingError"),
        *("dynamicPartitionOverwrite.", "vacuum.enforce", "vacuum.retentionWindowIgnore."),
        *("resolveMergeUpdateStructsByName.", "schemaEvolution.", "merge.insert.", "schema."),
    ),
    _OTHERS: (
        *("uniform.", "iceberg.", "hudi.", "coordinatedCommits.", "variant", "geo.", "amt."),
        *("adaptiveMetadataTree.", "enableTableRedirectFeature", "skipRedirectFeature"),
        *("legacy.", "dummyFileManager.", "testOnly.", "identityColumn.", "inCommitTimestamp."),
        *("workAroundColonsInHadoopPaths.", "loadFileSystemConfigsFromDataFrameOptions"),
        *("deltaTableBuilder.", "createDataFrame.", "v2.", "table.parquetV2."),
    ),
    _ENGINE: (
        *("merge.", "vacuum.", "checkpoint", "lastCheckpoint.", "snapshot", "maxSnapshotLineage"),
        *("commit.", "commitLock.", "commitStats.", "commitMetrics.", "incremental.", "metrics."),
        *("maxNonConflictCommitAttempts", "conflictChecker.", "conflictDetection.", "history."),
        *("deltaLog.", "delta.log.", "allFilesInCrc.", "setTransactionsInCrc."),
        *("domainMetadatasInCrc.", "readProtocolAndMetadataFromChecksum.", "postCommitHook."),
        *("fileSizeHistogramMetrics.", "statsAsStructInCheckpoint.", "deletionVectors."),
        *("command.", "dmlMetricsFromMetadata.", "insertOverwrite.", "insertReplaceOnOrUsing."),
        *("includeTableIdInFileIndexComparison", "internalUdfOptimization.", "replaceOn."),
        *("replaceUsing.", "optimizeMetadataQuery."),
    ),
}
_FAMILIES = {start: reason for reason, starts in _IDLE_FAMILIES.items() for start in starts}


def idle_reason(name: str) -> str | None:
    """Return why a setting has no effect: by its whole name, or by how it begins."""
    if name in IDLE:
        return IDLE[name]
    if did_you_mean(name, SETTINGS) or folded(name) in map(folded, SETTINGS):
        return None
    found = [start for start in _FAMILIES if name.startswith(start)]
    return _FAMILIES[max(found, key=len)] if found else None


_NAME = re.compile(re.escape(PREFIX) + r"([^\s,\[\]]+)")
_ICEBERG = re.compile(r"spark\.(?:sql\.iceberg|wap)\.[^\s,\[\]]+")
_log = logging.getLogger("tablefmt.spark")
_told: set[str] = set()


def remark_on(name: str) -> str:
    """Return what to tell of a setting that is not obeyed; "" if it is obeyed. Pure."""
    if name in SETTINGS or name in OF_READS or name.startswith(DEFAULTS):
        return ""
    reason = idle_reason(name)
    if reason is not None:
        return f"{PREFIX}{name} has no effect on tablefmt tables: {reason}"
    # Spark compares names of settings with their case.
    other_case = [each for each in SETTINGS if folded(each) == folded(name)]
    near = f"; did you mean {other_case[0]!r}?" if other_case else ""
    return (
        f"{PREFIX}{name} has no effect on tablefmt tables, which do not know it"
        f"{near or did_you_mean(name, [*SETTINGS, *IDLE])}"
    )


def _remark_once(names: Iterable[str]) -> None:
    for name in names:
        text = remark_on(name)
        if text and name not in _told:
            _told.add(name)
            _log.log(logging.INFO if idle_reason(name) else logging.WARNING, "%s", text)


def _keys(spark: Session) -> str:
    """Return the names of the session's settings as one text, in one call."""
    of_jvm = java_conf(spark)
    return of_jvm.getAllAsJava().keySet().toString() if of_jvm else " ".join(spark.conf.getAll)


def _check_icebergs(spark: Session, keys: str) -> list[str]:
    """Log Iceberg's settings that have no effect. Return all. Raises UnsupportedFeatureError."""
    found: list[str] = _ICEBERG.findall(keys)
    for name in found:
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
    return found


def check_settings(spark: Session) -> list[str]:
    """Check that no setting would change the result of a write, and log those without an effect.

    Returns:
        The names of Delta's settings in the session, without their prefix, and of Iceberg's.

    Raises:
        UnsupportedFeatureError: a setting would change it.
    """
    keys = _keys(spark)
    names: list[str] = _NAME.findall(keys)
    _remark_once(names)
    names += _check_icebergs(spark, keys)
    _refuse(spark, SETTINGS, names)
    return names


def check_read_settings(spark: Session) -> None:
    """Check that no setting would change the rows of a stream or of a range of changes.

    Raises:
        UnsupportedFeatureError: a setting would change them.
    """
    _refuse(spark, OF_READS, _NAME.findall(_keys(spark)))


def _refuse(spark: Session, settings: Mapping[str, Setting], names: Collection[str]) -> None:
    for name, setting in settings.items():
        if setting.refused is None or name not in names:
            continue
        value = spark.conf.get(PREFIX + name, None)
        if value is not None and setting.refused(value):
            raise UnsupportedFeatureError(
                f"{PREFIX}{name} is {value!r}, which tablefmt tables do not support; unset it, and "
                f"{setting.means}",
                [f"setting:{PREFIX}{name}"],
            )


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
    if "userMetadata" not in found and "usermetadata" not in given:
        found |= {
            name.removeprefix(iceberg_settings.PREFIX): spark.conf.get(name, None)
            for name in names
            if name.startswith(iceberg_settings.SNAPSHOT_PROPERTY)
        }
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
