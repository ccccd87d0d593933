"""Conflict evidence: files, rows and partitions that both commits touched, for people and programs.

At most ten items per kind, with counts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.facts import Winner
from tablefmt.conflict.verdict import Conflict
from tablefmt.errors import ConcurrentModificationException
from tablefmt.expressions.prune import Mask
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Primitive, Type
from tablefmt.model.values import encode

EVIDENCE_MAX = 10
"""Maximum number of items of one kind in the evidence."""

Evidence = dict[str, Any]


def conflict(
    winner: Winner,
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
        winner_version=winner.entry.version,
        winner_operation=winner.entry.operation.name,
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


def of_added(winner: Winner, mask: Mask, metadata: Metadata | None) -> Evidence:
    """Return ids, paths and partitions of files that the concurrent commit added.

    `mask` selects among all files that it added.
    """
    entry = winner.entry
    assert entry.add is not None
    at = np.flatnonzero(mask)
    first, shown = entry.totals.next_id - len(entry.add), at[:EVIDENCE_MAX].tolist()
    evidence: Evidence = {"files": [first + i for i in shown], "files_count": len(at)}
    paths = _column(winner, "path", shown, _TEXT)
    if paths is not None:
        evidence["paths"] = paths
    keys = metadata.partition_by if metadata is not None else ()
    if metadata is None or not keys:
        return evidence
    columns = [
        _column(winner, f"partition.{i}", at.tolist(), metadata.schema.by_id(i).type) for i in keys
    ]
    known = [c for c in columns if c is not None]
    if len(known) == len(keys):
        evidence |= of_partitions(set(zip(*known, strict=True)))
    return evidence


def _column(winner: Winner, name: str, at: list[int], kind: Type) -> list[Any] | None:
    """Return values of the added files in their JSON form (VAL-1); None if unknown."""
    add = winner.entry.add
    if isinstance(add, AddedFiles):
        column = add.columns.get(name)
        return None if column is None else [column[i] for i in at]
    if winner.files is None or name not in winner.files.column_names:
        return None
    return encode(winner.files[name].take(at).combine_chunks(), kind)


_TEXT = Primitive("string")
