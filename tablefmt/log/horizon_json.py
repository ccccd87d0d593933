"""Retention horizon to JSON of an entry and back. Pure, strict. Spec: ENT-13."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.log.checks import DIGEST, bad, integer
from tablefmt.log.names import root_version
from tablefmt.model.entry import Horizon, KeptCheckpoint, LogHorizon

CHECKPOINTS_MIN = 2
"""Minimum number of checkpoints that an entry must name to expire entries. One may be lost."""


def horizon_to_json(horizon: Horizon) -> dict[str, Any]:
    """Return the JSON form in an entry."""
    document: dict[str, Any] = {"version": horizon.version}
    if horizon.log is not None:
        document["log"] = {
            "checkpoints": [
                {"path": c.path, "sha256": c.sha256, "size": c.size, "version": c.version}
                for c in horizon.log.checkpoints
            ],
            "previous": horizon.log.previous,
            "version": horizon.log.version,
        }
    return document


def horizon_from_json(value: Mapping[str, Any]) -> Horizon:
    """Return the retention horizon from its JSON form.

    Raises:
        CorruptEntryError: ENT-13, ENT-2. KeyError, TypeError: a field is missing, or not an object.
    """
    version = integer(value, "version", low=1)
    if "log" not in value:
        return Horizon(version)
    log = value["log"]
    start = integer(log, "version", low=1)
    checkpoints = log["checkpoints"]
    if start > version or type(checkpoints) is not list or len(checkpoints) < CHECKPOINTS_MIN:
        raise bad("ENT-13", "its horizon expires kept entries, or names too few checkpoints")
    if type(log["previous"]) is not str or not DIGEST.fullmatch(log["previous"]):
        raise bad("ENT-13", "`previous` of its horizon is not 64 hex digits")
    return Horizon(version, LogHorizon(start, log["previous"], tuple(map(_kept, checkpoints))))


def _kept(value: Mapping[str, Any]) -> KeptCheckpoint:
    path, sha256 = value["path"], value["sha256"]
    kept = KeptCheckpoint(path, sha256, integer(value, "size", low=1), integer(value, "version"))
    sound = type(sha256) is str and DIGEST.fullmatch(sha256)
    if not sound or type(path) is not str or root_version(path) != kept.version:
        raise bad("ENT-13", "its horizon names an invalid checkpoint")
    return kept
