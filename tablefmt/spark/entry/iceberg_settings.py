"""Iceberg's session settings, and their meaning for tablefmt tables. Pure.

`REFUSED` would change where or how a write goes. `IDLE` have no effect, each for a reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from tablefmt.model.name_matching import did_you_mean

PREFIX = "spark.sql.iceberg."
MERGE_SCHEMA = f"{PREFIX}merge-schema"
"""true: every write has the option mergeSchema."""

SNAPSHOT_PROPERTY = f"{PREFIX}snapshot-property."
"""Before a name: every commit has it as metadata, as with the option of the same name."""

_ONE_LINE = "a table has one line of versions; for a trial, use CREATE TABLE … SHALLOW CLONE"

REFUSED: Mapping[str, str] = {"spark.wap.branch": _ONE_LINE, "spark.wap.id": _ONE_LINE}
"""Settings that a write refuses, and what to do instead."""

_ENGINE = "it tunes how Iceberg runs, and changes no result"
_STRICT = "tablefmt always checks this"
_FILES = "the options compression and targetFileSize of a write decide"

IDLE: Mapping[str, str] = {
    "vectorization.enabled": _ENGINE,
    "aggregate-push-down.enabled": _ENGINE,
    "planning.preserve-data-grouping": _ENGINE,
    "data-planning-mode": _ENGINE,
    "delete-planning-mode": _ENGINE,
    "locality.enabled": _ENGINE,
    "executor-cache.enabled": _ENGINE,
    "executor-cache.delete-files.enabled": _ENGINE,
    "executor-cache.timeout": _ENGINE,
    "executor-cache.max-entry-size": _ENGINE,
    "executor-cache.max-total-size": _ENGINE,
    "executor-cache.locality.enabled": _ENGINE,
    "report-column-stats": _ENGINE,
    "identifier-fields-rely": "tablefmt tables have no identifier fields",
    "read.split-size": _ENGINE,
    "read.adaptive-split-size.enabled": _ENGINE,
    "read.adaptive-split-size.parallelism": _ENGINE,
    "async-micro-batch-planning-enabled": _ENGINE,
    "check-nullability": _STRICT,
    "check-ordering": "columns are matched by the rules of the statement",
    "distribution-mode": "the property optimizeWrite of the table decides",
    "advisory-partition-size": "the property optimizeWrite of the table decides",
    "compression-codec": _FILES,
    "compression-level": _FILES,
    "compression-strategy": _FILES,
    "shred-variants": "the data decides",
    "variant-inference-buffer-size": "the data decides",
}
"""Settings without an effect by the name without `PREFIX`, and the reason."""


def remark_on(name: str) -> str:
    """Return what to tell of a setting below `PREFIX` that is not obeyed; "" if it is obeyed."""
    if name == MERGE_SCHEMA or name.startswith(SNAPSHOT_PROPERTY):
        return ""
    short = name.removeprefix(PREFIX)
    if short in IDLE:
        return f"{name} has no effect on tablefmt tables: {IDLE[short]}"
    known = [*IDLE, MERGE_SCHEMA.removeprefix(PREFIX)]
    return (
        f"{name} has no effect on tablefmt tables, which do not know it{did_you_mean(short, known)}"
    )
