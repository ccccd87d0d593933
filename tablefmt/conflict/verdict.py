"""Verdict of the conflict rules on a concurrent commit: a conflict, or the rule that allowed it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, Union

from tablefmt.errors import ConcurrentModificationException


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Conflict with a concurrent commit. `error` is the exception that a caller raises."""

    error: type[ConcurrentModificationException]
    rule: str
    reason: str
    winner_version: int
    winner_operation: str
    cell: str | None = None
    """Text of the matrix rule that applied; None if no matrix was consulted."""
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    advice: str | None = None
    """Advice for the user, if it differs from the exception class's default."""

    def exception(self) -> ConcurrentModificationException:
        """Return the exception with all fields."""
        return self.error(
            self.reason,
            winner_version=self.winner_version,
            winner_operation=self.winner_operation,
            rule=self.rule,
            cell=self.cell,
            evidence=self.evidence,
            advice=self.advice,
        )


@dataclass(frozen=True, slots=True)
class AlreadyApplied:
    """Another entry carries the same application id, version and content; ours was not written."""

    version: int
    """ID version of that other entry."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Others did all of a compaction before; there is nothing left, and ours was not written."""

    version: int
    """ID version of the last of them."""


Stop: TypeAlias = Union[Conflict, AlreadyApplied, Overtaken]  # noqa: UP007 - Python 3.10's typing
"""Ends a commit: it may not follow the concurrent commit."""

Verdict: TypeAlias = Union[Stop, None]  # noqa: UP007
"""None: the commit may follow the concurrent commit."""


@dataclass(frozen=True, eq=False)
class RebasedOver(int):
    """Concurrent commit that a commit was rebased over, and the rule that allowed it.

    It is an int, the version. So a list of these is a list of versions: each equals the plain
    number, and JSON and Arrow treat it as a number.
    """

    version: int
    operation: str
    """Name of the concurrent commit's operation."""
    rule: str
    """Most specific rule that allowed the rebase."""
    cell: str | None
    """Text of the matrix rule; None if no matrix was consulted."""

    def __new__(cls, version: int, *_: object, **__: object) -> RebasedOver:
        """Create the number alone. `__init__` sets the fields."""
        return super().__new__(cls, version)

    def __str__(self) -> str:
        return str(self.version)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict, for programs."""
        return asdict(self)
