"""Verdict of the conflict rules on a concurrent commit: a conflict, or the rule that allowed it.
Pure.

A conflict has evidence for people and programs: files, rows and partitions that both commits
touched. At most ten items per kind, with counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, Union

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import ConcurrentCommit
from tablefmt.errors import ConcurrentModificationException
from tablefmt.expressions.file_pruning import Mask
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Primitive, Type


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
    """Version of that other entry."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Other commits have already rewritten every file of this compaction. Nothing was committed."""

    version: int
    """Version of the last of them."""


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


EVIDENCE_MAX = 10
"""Maximum number of items of one kind in the evidence."""

Evidence = dict[str, Any]


def conflict(
    concurrent: ConcurrentCommit,
    error: type[ConcurrentModificationException],
    rule: str,
    reason: str,
    cell: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Conflict:
    """Return the conflict, with the version and operation of the winning commit."""
    return Conflict(
        error=error,
        rule=rule,
        reason=reason,
        winner_version=concurrent.entry.version,
        winner_operation=concurrent.entry.operation.name,
        cell=cell,
        evidence=evidence or {},
    )


def of_files(ids: Iterable[int]) -> Evidence:
    """Return file ids as evidence, ascending."""
    ordered = sorted(ids)
    return {"files": ordered[:EVIDENCE_MAX], "files_count": len(ordered)} if ordered else {}


def of_rows(rows: Mapping[int, BitMap64]) -> Evidence:
    """Return rows as [file id, position], with their files."""
    shown: list[list[int]] = []
    for file in sorted(rows):
        for position in rows[file]:
            if len(shown) == EVIDENCE_MAX:
                break
            shown.append([file, position])
    count = sum(len(positions) for positions in rows.values())
    return {**of_files(rows), "rows": shown, "rows_count": count}


def of_partitions(partitions: Iterable[tuple[Any, ...]]) -> Evidence:
    """Return partitions as lists of encoded values."""
    ordered = sorted(partitions, key=repr)
    shown = [list(values) for values in ordered[:EVIDENCE_MAX]]
    return {"partitions": shown, "partitions_count": len(ordered)}


def of_added(concurrent: ConcurrentCommit, mask: Mask, metadata: Metadata | None) -> Evidence:
    """Return ids, paths and partitions of files that the concurrent commit added.

    `mask` selects among all files that it added.
    """
    entry = concurrent.entry
    assert entry.add is not None
    at = np.flatnonzero(mask)
    first, shown = entry.totals.next_id - len(entry.add), at[:EVIDENCE_MAX].tolist()
    evidence: Evidence = {"files": [first + i for i in shown], "files_count": len(at)}
    paths = _column(concurrent, "path", shown, _TEXT)
    if paths is not None:
        evidence["paths"] = paths
    keys = metadata.partition_by if metadata is not None else ()
    if metadata is None or not keys:
        return evidence
    columns = [
        _column(concurrent, f"partition.{i}", at.tolist(), metadata.schema.by_id(i).type)
        for i in keys
    ]
    known = [c for c in columns if c is not None]
    if len(known) == len(keys):
        evidence |= of_partitions(set(zip(*known, strict=True)))
    return evidence


def _column(concurrent: ConcurrentCommit, name: str, at: list[int], kind: Type) -> list[Any] | None:
    """Return values of the added files in their JSON form (VAL-1); None if unknown."""
    add = concurrent.entry.add
    if isinstance(add, AddedFiles):
        column = add.columns.get(name)
        return None if column is None else [column[i] for i in at]
    if concurrent.files is None or name not in concurrent.files.column_names:
        return None
    return encode(concurrent.files[name].take(at).combine_chunks(), kind)


_TEXT = Primitive("string")
