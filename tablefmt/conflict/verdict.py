"""What the conflict rules say of a winner: why not, or by which rule. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Union

from tablefmt.errors import ConcurrentModificationException


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why not. `error` is the exception that a caller raises."""

    error: type[ConcurrentModificationException]
    rule: str
    reason: str
    winner_version: int
    winner_operation: str
    cell: str | None = None
    """The matrix cell that applied, in words; None where no matrix was asked."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    advice: str | None = None
    """What to do next, if not what the class of the exception says."""

    def exception(self) -> ConcurrentModificationException:
        """The exception with all fields."""
        return self.error(
            self.reason,
            winner_version=self.winner_version,
            winner_operation=self.winner_operation,
            rule=self.rule,
            cell=self.cell,
            evidence=self.evidence,
            advice=self.advice,
        )


class Same(Enum):
    """The winner is this very write, sent by somebody else before."""

    ALREADY_APPLIED = "already applied"


Verdict = Union[Conflict, Same, None]  # noqa: UP007 - evaluated at run time in 3.10
"""None: it may go on top."""


@dataclass(frozen=True, eq=False)
class RebasedOver(int):
    """A winner that a commit was re-based over, and why that was allowed.

    It is its version, so that a list of them is one of versions: equal to the plain number, and a
    number to JSON and Arrow.
    """

    version: int
    operation: str
    """The winner's."""
    rule: str
    """The most particular rule that let it pass."""
    cell: str | None
    """The matrix cell, in words; None where no matrix was asked."""

    def __new__(cls, version: int, *_: object, **__: object) -> RebasedOver:
        """The number alone: the fields are `__init__`'s."""
        return super().__new__(cls, version)

    def __str__(self) -> str:
        return str(self.version)

    def as_dict(self) -> dict[str, Any]:
        """The same for a machine."""
        return asdict(self)
