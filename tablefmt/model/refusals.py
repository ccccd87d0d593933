"""Refused commits of a writer, as its next entry reports them. Pure. Spec: ENT-17.

The report is for people. No rule depends on it, so a reader ignores one of another shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

REFUSED = "x_refused"
"""Name of the field in an entry. Names of this kind are ignored by readers without it (VER-2)."""

GROUPS_MAX = 16
"""Maximum number of groups in one entry."""

TEXT_MAX = 200
"""Maximum length of a text in a group."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Commits of one operation that one kind of concurrent commit and one rule refused."""

    operation: str
    """Operation that was refused."""
    winner: str
    """Operation of the concurrent commits."""
    rule: str
    cell: str | None
    """Text of the matrix rule; None if no matrix was consulted."""
    error: str
    """Kind of the error, such as `concurrent_append`."""
    times: int
    """Number of refused commits, at least 1."""
    last_winner: int
    """Version of the newest of the concurrent commits."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Return what distinguishes one group from another."""
        return self.operation, self.winner, self.rule, self.cell or "", self.error

    def plus(self, other: Refusal) -> Refusal:
        """Return both groups as one."""
        last = max(self.last_winner, other.last_winner)
        return Refusal(*self._kind(), self.times + other.times, last)

    def _kind(self) -> tuple[str, str, str, str | None, str]:
        return self.operation, self.winner, self.rule, self.cell, self.error


def merged(refusals: Iterable[Refusal]) -> dict[tuple[str, ...], Refusal]:
    """Return the groups by their keys, each once, in the order of the first of each."""
    found: dict[tuple[str, ...], Refusal] = {}
    for one in refusals:
        known = found.get(one.key)
        found[one.key] = one if known is None else known.plus(one)
    return found


def refusals_to_json(refusals: Iterable[Refusal]) -> list[dict[str, Any]]:
    """Return the value of the field."""
    return [asdict(one) for one in refusals]


_TEXTS = ("operation", "winner", "rule", "error")
_NAMES = frozenset(field.name for field in fields(Refusal))


def refusals_of(unknown: Mapping[str, Any]) -> tuple[Refusal, ...]:
    """Return the refusals that an entry reports, from its ignorable fields.

    Groups of another shape are left out: nothing but people depends on them.
    """
    groups = unknown.get(REFUSED)
    if not isinstance(groups, list):
        return ()
    return tuple(Refusal(**one) for one in groups[:GROUPS_MAX] if _is_group(one))


def _is_group(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != _NAMES:
        return False
    texts = [value[name] for name in _TEXTS]
    if value["cell"] is not None:
        texts.append(value["cell"])
    numbers = ((value["times"], 1), (value["last_winner"], 0))
    return all(type(text) is str for text in texts) and all(
        type(number) is int and number >= low for number, low in numbers
    )
