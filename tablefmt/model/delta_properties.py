"""Delta's table properties, and the property of a table that each one becomes. Pure.

`DELTA_PROPERTIES` is the whole list. A `delta.` name that is not in it is refused by name.
Spec: spec/decisions/0036.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.name_matching import did_you_mean, folded

DELTA = "delta."
"""Prefix of the names of Delta's own properties."""


@dataclass(frozen=True, slots=True)
class PeerProperty:
    """The meaning of one property of Delta's, or of Iceberg's."""

    ours: str | None = None
    """The property that has its meaning. None: no property is set."""
    values: Mapping[str, str | None] = field(default_factory=dict)
    """Our value for each of theirs. None: the value needs no property. Without values,
    their value is used as it is."""
    instead: str | None = None
    """The alternative to a property that is refused, or to a value that is not in `values`."""
    is_size: bool = False
    """Their value may be text such as `64mb`. Ours is the number of bytes."""


def _same(ours: str) -> PeerProperty:
    return PeerProperty(ours)


def _always(*values: str) -> PeerProperty:
    """Return a property for a feature that every table has: only some values are true."""
    return PeerProperty(
        None, dict.fromkeys(values), "every tablefmt table has this feature; leave it out"
    )


def _refused(instead: str) -> PeerProperty:
    return PeerProperty(None, {}, instead)


_UNNEEDED = PeerProperty(None)
"""A property about Delta's own log or protocol. It cannot change a result."""

DELTA_PROPERTIES: Mapping[str, PeerProperty] = {
    "appendOnly": _same("appendOnly"),
    "checkpointInterval": _same("checkpointInterval"),
    "deletedFileRetentionDuration": _same("deletedFileRetentionDuration"),
    "isolationLevel": _same("isolationLevel"),
    "logRetentionDuration": _same("logRetentionDuration"),
    "setTransactionRetentionDuration": _same("applicationRetentionDuration"),
    "dataSkippingStatsColumns": _same("statsColumns"),
    "targetFileSize": PeerProperty("targetFileSize", is_size=True),
    "autoOptimize": PeerProperty("optimizeWrite", {"true": "true", "false": "false"}),
    "autoOptimize.optimizeWrite": PeerProperty("optimizeWrite", {"true": "true", "false": "false"}),
    "autoOptimize.autoCompact": PeerProperty(
        "autoCompact", {"true": "true", "auto": "true", "false": "false"}
    ),
    "enableDeletionVectors": PeerProperty(
        "deleteMode", {"true": "merge-on-read", "false": "copy-on-write"}
    ),
    "universalFormat.enabledFormats": PeerProperty(
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
    "compatibility.symlinkFormatManifest.enabled": PeerProperty(
        None, {"false": None}, 'export the table instead: Table.export("delta")'
    ),
    "enableExpiredLogCleanup": PeerProperty(
        None, {"true": None}, "log entries are removed only by expire_log() and maintain()"
    ),
    "enableFullRetentionRollback": _UNNEEDED,
    "enableIcebergCompatV1": PeerProperty("export", {"true": "iceberg", "false": None}),
    "enableIcebergCompatV2": PeerProperty("export", {"true": "iceberg", "false": None}),
    "minReaderVersion": _UNNEEDED,
    "minWriterVersion": _UNNEEDED,
    "randomizeFilePrefixes": _UNNEEDED,
    "randomPrefixLength": _UNNEEDED,
    "sampleRetentionDuration": _UNNEEDED,
    "tuneFileSizesForRewrites": _UNNEEDED,
    "dataSkippingNumIndexedCols": _refused("name the columns in the property statsColumns"),
    "parquet.compression.codec": PeerProperty(
        None, {"zstd": None}, "give each write the option compression"
    ),
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


def delta_row(name: str) -> PeerProperty | None:
    """Return the row of a name. None for a feature that every table has.

    Raises:
        SchemaMismatchError: an unknown name, or a feature that tables do not have.
    """
    short = name[len(DELTA) :]
    if folded(short).startswith(_FEATURE):
        if folded(short[len(_FEATURE) :]) in _FEATURES:
            return None
        raise error_of(name, "tablefmt tables do not have this feature; leave it out")
    if folded(short).startswith(_CONSTRAINT):
        raise error_of(name, "add it with ALTER TABLE ADD CONSTRAINT, or alter.add_constraint()")
    row = DELTA_PROPERTIES.get(_NAMES.get(folded(short), ""))
    if row is None:
        known = [DELTA + each for each in DELTA_PROPERTIES]
        raise error_of(name, f"leave it out{did_you_mean(name, known)}")
    return row


def error_of(name: str, instead: str) -> SchemaMismatchError:
    """Return the error for a property that tablefmt tables cannot have."""
    return SchemaMismatchError(f"tablefmt tables do not have Delta's property {name}; {instead}")
