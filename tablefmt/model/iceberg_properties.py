"""Iceberg's table properties, and their meaning for tablefmt tables. Pure.

`ICEBERG_PROPERTIES` has a row for a name or, with a dot at its end, for all names that begin so.
"""

from __future__ import annotations

from collections.abc import Mapping

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.delta_properties import PeerProperty
from tablefmt.model.name_matching import did_you_mean, folded

_UNNEEDED = PeerProperty()
"""A property that tunes Iceberg's files or commits. It cannot change a result."""

_MODES = PeerProperty(
    "deleteMode",
    {"merge-on-read": "merge-on-read", "copy-on-write": "copy-on-write"},
)
_ISOLATION = PeerProperty(
    "isolationLevel", {"serializable": "Serializable", "snapshot": "WriteSerializable"}
)
_ONE_LINE = "a table has one line of versions; for a trial, use CREATE TABLE … SHALLOW CLONE"
_PLACES = "files are below the table's folder; leave it out"


def _only(*values: str, instead: str) -> PeerProperty:
    """Return a property of which some values mean what every tablefmt table does."""
    return PeerProperty(None, dict.fromkeys(values), instead)


def _refused(instead: str) -> PeerProperty:
    return PeerProperty(None, {}, instead)


ICEBERG_PROPERTIES: Mapping[str, PeerProperty] = {
    "format-version": _only("1", "2", "3", "4", instead="leave it out"),
    "write.target-file-size-bytes": PeerProperty("targetFileSize"),
    "write.delete.mode": _MODES,
    "write.update.mode": _MODES,
    "write.merge.mode": _MODES,
    "write.delete.isolation-level": _ISOLATION,
    "write.update.isolation-level": _ISOLATION,
    "write.merge.isolation-level": _ISOLATION,
    "write.distribution-mode": PeerProperty(
        "optimizeWrite",
        {"hash": "true", "none": "false"},
        "for rows in an order, use ALTER TABLE … CLUSTER BY",
    ),
    "write.delete.distribution-mode": _UNNEEDED,
    "write.update.distribution-mode": _UNNEEDED,
    "write.merge.distribution-mode": _UNNEEDED,
    "write.delete.granularity": _UNNEEDED,
    "write.delete.target-file-size-bytes": _UNNEEDED,
    "write.delete.parquet.": _UNNEEDED,
    "write.delete.avro.": _UNNEEDED,
    "write.delete.orc.": _UNNEEDED,
    "write.manifest.": _UNNEEDED,
    "write.format.default": _only("parquet", instead="data files are Parquet; leave it out"),
    "write.delete.format.default": _only("parquet", instead="leave it out"),
    "write.parquet.compression-codec": _only(
        "zstd", instead="give each write the option compression"
    ),
    "write.parquet.": _UNNEEDED,
    "write.avro.": _UNNEEDED,
    "write.orc.": _UNNEEDED,
    "write.metadata.path": _refused(_PLACES),
    "write.data.path": _refused(_PLACES),
    "write.folder-storage.path": _refused(_PLACES),
    "write.location-provider.impl": _refused(_PLACES),
    "write.object-storage.path": _refused(_PLACES),
    "write.object-storage.enabled": _UNNEEDED,
    "write.object-storage.partitioned-paths": _UNNEEDED,
    "write.metadata.": _UNNEEDED,
    "write.manifest-lists.enabled": _UNNEEDED,
    "write.summary.partition-limit": _UNNEEDED,
    "write.spark.accept-any-schema": _UNNEEDED,
    "write.spark.fanout.enabled": _UNNEEDED,
    "write.spark.auto-schema-evolution.enabled": _only(
        "false", instead="give writes the option mergeSchema, or use WITH SCHEMA EVOLUTION"
    ),
    "write.spark.advisory-partition-size-bytes": _UNNEEDED,
    "write.wap.enabled": _only("false", instead=_ONE_LINE),
    "write.upsert.enabled": _only("false", instead="use MERGE INTO with the key columns"),
    "commit.": _UNNEEDED,
    "read.": _UNNEEDED,
    "compatibility.": _UNNEEDED,
    "history.expire.max-snapshot-age-ms": PeerProperty("deletedFileRetentionDuration"),
    "history.expire.min-snapshots-to-keep": _only("1", instead="keep a version by a tag"),
    "history.expire.max-ref-age-ms": _refused("give each tag RETAIN"),
    "gc.enabled": _only("true", instead="a vacuum is never started by itself; leave it out"),
    "engine.hive.enabled": _UNNEEDED,
    "engine.hive.lock-enabled": _UNNEEDED,
    "schema.name-mapping.default": _UNNEEDED,
    "identifier-fields.rely": _UNNEEDED,
    "encryption.": _refused("files are not encrypted by tablefmt; use encryption of the store"),
}
"""Iceberg's properties."""

_SHARED = frozenset({"engine", "schema", "identifier-fields"})
"""First words of Iceberg's names that a user's own properties may have, too."""
_FIRST = {name.partition(".")[0] for name in ICEBERG_PROPERTIES if "." in name}
_BEGINNINGS = tuple(f"{word}." for word in _FIRST - _SHARED)
_MILLISECONDS = "-age-ms"


def is_icebergs(name: str) -> bool:
    """Return whether a name is, or may be, one of Iceberg's own properties."""
    return folded(name).startswith(_BEGINNINGS) or folded(name) in ICEBERG_PROPERTIES


def iceberg_row(name: str) -> PeerProperty:
    """Return the row of a name. Raises SchemaMismatchError for an unknown one."""
    short = folded(name)
    row = ICEBERG_PROPERTIES.get(short)
    if row is not None:
        return row
    for known, row in ICEBERG_PROPERTIES.items():
        if known.endswith(".") and short.startswith(known):
            return row
    names = [known for known in ICEBERG_PROPERTIES if not known.endswith(".")]
    raise error_of(name, f"leave it out{did_you_mean(name, names)}")


def iceberg_value(name: str, value: str) -> str:
    """Return a value in the form of ours: milliseconds become a duration.

    Raises:
        SchemaMismatchError: no whole number of milliseconds.
    """
    if not folded(name).endswith(_MILLISECONDS):
        return value
    if not value.strip().isdecimal() or int(value) % 1000:
        raise error_of(name, f"the value is {value!r:.50}; expected whole seconds, in milliseconds")
    return f"interval {int(value) // 1000} seconds"


def error_of(name: str, instead: str) -> SchemaMismatchError:
    """Return the error for a property that tablefmt tables cannot have."""
    return SchemaMismatchError(f"tablefmt tables do not have Iceberg's property {name}; {instead}")
