"""How an attempt to commit can end, as values. Raising is left to the table.

Spec: CMT-1 (spec/commit.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

from tablefmt.conflict.verdict import AlreadyApplied as AlreadyApplied
from tablefmt.conflict.verdict import Conflict
from tablefmt.conflict.verdict import Overtaken as Overtaken


@dataclass(frozen=True, slots=True)
class Committed:
    """The entry is in the log and stays there."""

    version: int
    """ID version of the entry."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The entry is not in the log and never will be. The writer may delete its files."""

    reason: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """An entry that won does not let ours on top. Ours is not in the log and never will be."""

    conflict: Conflict
    """The verdict on that entry."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The entry may be in the log, or may still arrive. The writer keeps its files."""

    version: int
    """The only ID version at which the entry can be. From a lookup without a version: the least."""
    reason: str


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """What a lookup says of a transaction whose last contested version another entry holds."""

    version: int


@dataclass(frozen=True, slots=True)
class Untold:
    """What a lookup says where the entries that would tell are not kept any more: never more."""

    version: int
    """ID version of the first that is kept."""


# Evaluated at run time, so the unions are spelt for Python 3.10's typing.
Outcome: TypeAlias = Union[  # noqa: UP007
    Committed, AlreadyApplied, Rejected, Conflicted, Overtaken, Unknown
]
Resolution: TypeAlias = Union[Committed, NotCommitted, Unknown, Untold]  # noqa: UP007
