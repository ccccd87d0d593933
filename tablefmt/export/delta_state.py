"""Facts of a Delta copy that each foreign commit hands on to the next one, in its mark. Pure.

Spec: XPT-3, XPT-5, XPT-6, XPT-10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.export.export_target import Mark


@dataclass(frozen=True, slots=True)
class DeltaState:
    """Facts of the copy that its next commit needs. They are in every mark."""

    time: int
    """`inCommitTimestamp` of the newest commit, ms."""
    features: tuple[str, ...]
    """Features of readers, sorted. A feature stays once it is needed."""
    changes: Mapping[str, Sequence[Sequence[str]]]
    """Type changes, as in `delta_schema`."""
    spans: Sequence[Sequence[int]]
    """Pairs (after, to): the commit of version `to` says the changes of all versions above `after`.
    The first pair is the start. Others are holds that ended.
    """
    checkpoint: int
    """Version of the newest checkpoint that was due; NOTHING if none was."""

    @classmethod
    def of(cls, mark: Mark) -> DeltaState:
        """Return the state in a mark."""
        return cls(**{**mark.state, "features": tuple(mark.state["features"])})

    @classmethod
    def read(cls, given: Any) -> DeltaState:
        """Return the state in a JSON value, which anybody may have written.

        Raises:
            ArithmeticError, AttributeError, LookupError, TypeError, ValueError: it is none.
        """
        features, changes, spans = given["features"], given["changes"], given["spans"]
        times = [given["time"], given["checkpoint"], *(each for span in spans for each in span)]
        words = [each for pairs in changes.values() for pair in pairs for each in pair]
        if not all(type(each) is int and abs(each) < 1 << 63 for each in times):
            raise ValueError("a number of the state")
        if not all(type(each) is str for each in (*features, *words)):
            raise ValueError("a word of the state")
        if any(len(pair) != 2 for pairs in changes.values() for pair in pairs):
            raise ValueError("a change of a type")
        if not spans or any(len(span) != 2 for span in spans):
            raise ValueError("a span of versions")
        return cls(given["time"], tuple(features), changes, spans, given["checkpoint"])

    def json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "time": self.time,
            "features": list(self.features),
            "changes": {key: [list(pair) for pair in value] for key, value in self.changes.items()},
            "spans": [list(span) for span in self.spans],
            "checkpoint": self.checkpoint,
        }

    def told_by(self, version: int) -> int:
        """Return the version of the foreign commit that says what a version changed."""
        return next((to for after, to in self.spans if after < version <= to), version)
