"""What the conflict rules say of a winner: why not, or by which rule. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    def exception(self) -> ConcurrentModificationException:
        """The exception with all fields."""
        return self.error(
            self.reason,
            winner_version=self.winner_version,
            winner_operation=self.winner_operation,
            rule=self.rule,
            cell=self.cell,
            evidence=self.evidence,
        )


class Same(Enum):
    """The winner is this very write, sent by somebody else before."""

    ALREADY_APPLIED = "already applied"


Verdict = Union[Conflict, Same, None]  # noqa: UP007 - evaluated at run time in 3.10
"""None: it may go on top."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Why a commit may go on top of one winner."""

    version: int
    operation: str
    """The winner's."""
    rule: str
    """The most particular rule that let it pass."""
    cell: str | None
    """The matrix cell, in words; None where no matrix was asked."""


class RebasedOver(int):
    """The version of a winner that a commit was re-based over, with why that was allowed.

    Equal to the plain number.
    """

    operation: str
    rule: str
    cell: str | None

    def __new__(cls, version: int, operation: str, rule: str, cell: str | None) -> RebasedOver:
        """See `Allowed` for the fields."""
        passed = super().__new__(cls, version)
        passed.operation, passed.rule, passed.cell = operation, rule, cell
        return passed

    def __getnewargs__(self) -> tuple[int, str, str, str | None]:  # type: ignore[override]
        return int(self), self.operation, self.rule, self.cell

    @classmethod
    def of(cls, allowed: Allowed) -> RebasedOver:
        """From the record of the check."""
        return cls(allowed.version, allowed.operation, allowed.rule, allowed.cell)

    def as_dict(self) -> dict[str, Any]:
        """The same for a machine."""
        return {
            "version": int(self),
            "operation": self.operation,
            "rule": self.rule,
            "cell": self.cell,
        }
