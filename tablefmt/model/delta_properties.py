"""Delta's table properties, and the property of a table that each one becomes. Pure.

`DELTA_PROPERTIES` is the whole list. A `delta.` name that is not in it is refused by name.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.name_matching import did_you_mean, folded

DELTA = "delta."
"""Prefix of the names of Delta's own properties."""


@dataclass(frozen=True, slots=True)
class DeltaProperty:
    """The meaning of one of Delta's properties."""

    ours: str | None = None
    """The property that has its meaning. None: no property is set."""
    values: Mapping[str, str | None] = field(default_factory=dict)
    """Our value for each of Delta's values. None: the value needs no property. Without values,
    Delta's value is used as it is."""
    instead: str | None = None
    """The alternative to a property that is refused, or to a value that is not in `values`."""


def _same(ours: str) -> DeltaProperty:
    return DeltaProperty(ours)


def _always(*values: str) -> DeltaProperty:
    """Return a property for a feature that every table has: only some values are true."""
    return DeltaProperty(
        None, dict.fromkeys(values), "every tablefmt table has this feature; leave it out"
    )


def _refused(instead: str) -> DeltaProperty:
    return DeltaProperty(None, {}, instead)


_UNNEEDED = DeltaProperty(None)
"""A property about Delta's own log or protocol. It cannot change a result."""

DELTA_PROPERTIES: Mapping[str, DeltaProperty] = {
    "appendOnly": _same("appendOnly"),
    "checkpointInterval": _same("checkpointInterval"),
    "deletedFileRetentionDuration": _same("deletedFileRetentionDuration"),
    "isolationLevel": _same("isolationLevel"),
    "logRetentionDuration": _same("logRetentionDuration"),
    "setTransactionRetentionDuration": _same("applicationRetentionDuration"),
    "dataSkippingStatsColumns": _same("statsColumns"),
    "targetFileSize": _same("targetFileSize"),
    "autoOptimize": DeltaProperty("optimizeWrite", {"true": "true", "false": "false"}),
    "autoOptimize.optimizeWrite": DeltaProperty(
        "optimizeWrite", {"true": "true", "false": "false"}
    ),
    "autoOptimize.autoCompact": DeltaProperty(
        "autoCompact", {"true": "true", "auto": "true", "false": "false"}
    ),
    "enableDeletionVectors": DeltaProperty(
        "deleteMode", {"true": "merge-on-read", "false": "copy-on-write"}
    ),
    "universalFormat.enabledFormats": DeltaProperty(
        "export", {"iceberg": "iceberg"}, "tablefmt tables can be exported as iceberg and delta"
    ),
    "enableChangeDataFeed": _always("true", "false"),
    "enableInCommitTimestamps": _always("true", "false"),
    "enableRowTracking": _always("true", "false"),
    "enableTypeWidening": _always("true", "false"),
    "columnMapping.mode": _always("name", "id", "none"),
    "checkpoint.writeStatsAsJson": _UNNEEDED,
    "checkpoint.writeStatsAsStruct": _UNNEEDED,
    "checkpointPolicy": _UNNEEDED,
    "checkpointRetentionDuration": _UNNEEDED,
    "columnMapping.maxColumnId": _UNNEEDED,
    "compatibility.symlinkFormatManifest.enabled": DeltaProperty(
        None, {"false": None}, 'export the table instead: Table.export("delta")'
    ),
    "enableExpiredLogCleanup": DeltaProperty(
        None, {"true": None}, "log entries are removed only by expire_log() and maintain()"
    ),
    "enableFullRetentionRollback": _UNNEEDED,
    "enableIcebergCompatV1": DeltaProperty(
        None, {"false": None}, "set the property export to 'iceberg'"
    ),
    "enableIcebergCompatV2": DeltaProperty(
        None, {"false": None}, "set the property export to 'iceberg'"
    ),
    "minReaderVersion": _UNNEEDED,
    "minWriterVersion": _UNNEEDED,
    "randomizeFilePrefixes": _UNNEEDED,
    "randomPrefixLength": _UNNEEDED,
    "sampleRetentionDuration": _UNNEEDED,
    "tuneFileSizesForRewrites": _UNNEEDED,
    "dataSkippingNumIndexedCols": _refused("name the columns in the property statsColumns"),
    "parquet.compression.codec": _refused("give each write the option compression"),
    "coordinatedCommits": _refused("tablefmt commits need no coordinator; leave it out"),
}
"""Delta's properties by the name without `DELTA`."""

DELTA_FEATURES = frozenset(
    {
        *("allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints"),
        *("columnMapping", "deletionVectors", "inCommitTimestamp", "invariants", "rowTracking"),
        *("timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint"),
        *("vacuumProtocolCheck", "variantType", "variantType-preview"),
    }
)
"""Delta's table features that every tablefmt table has, or does not need."""

_NAMES = {folded(name): name for name in DELTA_PROPERTIES}
_FEATURES = {folded(name) for name in DELTA_FEATURES}
_FEATURE = "feature."
_CONSTRAINT = "constraints."


def translate_properties(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with Delta's own ones replaced by those that have their meaning.

    Properties without Delta's prefix stay as they are.

    Raises:
        SchemaMismatchError: a property of Delta's that tablefmt tables cannot have. The message
            says what to do instead. Or two properties that become one.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        ours = _translated(name, value) if folded(name).startswith(DELTA) else (name, value)
        if ours is None:
            continue
        if found.get(ours[0], ours[1]) != ours[1]:
            raise SchemaMismatchError(
                f"the properties set {ours[0]} to {found[ours[0]]!r} and to {ours[1]!r}; "
                f"set it once. {name} becomes {ours[0]}"
            )
        found[ours[0]] = ours[1]
    return found


def _known(name: str) -> DeltaProperty | None:
    """Return the row of a name. None for a feature that every table has."""
    short = name[len(DELTA) :]
    if folded(short).startswith(_FEATURE):
        if folded(short[len(_FEATURE) :]) in _FEATURES:
            return None
        raise _error(name, "tablefmt tables do not have this feature; leave it out")
    if folded(short).startswith(_CONSTRAINT):
        raise _error(name, "add it with ALTER TABLE ADD CONSTRAINT, or alter.add_constraint()")
    row = DELTA_PROPERTIES.get(_NAMES.get(folded(short), ""))
    if row is None:
        known = [DELTA + each for each in DELTA_PROPERTIES]
        raise _error(name, f"leave it out{did_you_mean(name, known)}")
    return row


def _translated(name: str, value: Any) -> tuple[str, Any] | None:
    row = _known(name)
    if row is None:
        return None
    if row.instead is not None and not row.values:
        raise _error(name, row.instead)
    if not row.values:
        return None if row.ours is None else (row.ours, value)
    text = folded(str(value))
    if text not in row.values:
        wanted = " or ".join(row.values)
        instead = f"; {row.instead}" if row.instead else ""
        raise SchemaMismatchError(
            f"the property {name} is {value!r:.100}; on tablefmt tables it may be {wanted}{instead}"
        )
    ours = row.values[text]
    return None if row.ours is None or ours is None else (row.ours, ours)


def _error(name: str, instead: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"tablefmt tables do not have Delta's property {name}; {instead}")
