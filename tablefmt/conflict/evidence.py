"""What both sides touched, for people and machines: at most ten items a kind, with counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.facts import Ids, Winner
from tablefmt.conflict.verdict import Conflict
from tablefmt.errors import ConcurrentModificationException
from tablefmt.model.entry import AddedFiles
from tablefmt.model.prune import Mask
from tablefmt.model.schema import Decimal, Primitive
from tablefmt.model.values import encode

EVIDENCE_MAX = 10
"""Most items of one kind that evidence names."""

Evidence = dict[str, Any]


def conflict(
    winner: Winner,
    error: type[ConcurrentModificationException],
    rule: str,
    reason: str,
    cell: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Conflict:
    """The verdict, with the winner's version and operation."""
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
    """File ids, ascending."""
    found = sorted(ids)
    return {"files": found[:EVIDENCE_MAX], "files_count": len(found)} if found else {}


def of_rows(rows: Mapping[int, BitMap64]) -> Evidence:
    """Rows as [file id, position], with the files they are in."""
    shown: list[list[int]] = []
    for file in sorted(rows):
        for position in rows[file]:
            if len(shown) == EVIDENCE_MAX:
                break
            shown.append([file, position])
    count = sum(len(positions) for positions in rows.values())
    return {**of_files(rows), "rows": shown, "rows_count": count}


def of_partitions(partitions: Iterable[tuple[Any, ...]]) -> Evidence:
    """Partitions as lists of encoded values."""
    found = sorted(partitions, key=repr)
    shown = [list(values) for values in found[:EVIDENCE_MAX]]
    return {"partitions": shown, "partitions_count": len(found)}


def of_added(winner: Winner, mask: Mask, partition_by: tuple[int, ...]) -> Evidence:
    """Files that the winner added: paths, ids and partitions. The mask has a truth for each."""
    entry = winner.entry
    assert entry.add is not None
    at = np.flatnonzero(mask)
    first = entry.totals.next_id - len(entry.add)
    evidence: Evidence = {**of_files((at[:EVIDENCE_MAX] + first).tolist()), "files_count": len(at)}
    shown = at[:EVIDENCE_MAX].tolist()
    paths = _values(winner, "path", shown)
    if paths is not None:
        evidence["paths"] = paths
    columns = [_values(winner, f"partition.{i}", at.tolist()) for i in partition_by]
    known = [c for c in columns if c is not None]
    if known and len(known) == len(columns):
        evidence |= of_partitions(set(zip(*known, strict=True)))
    return evidence


def of_ids(ids: Ids) -> Evidence:
    """File ids of an array."""
    return of_files(ids.tolist())


def _values(winner: Winner, name: str, at: list[int]) -> list[Any] | None:
    """A column of the added files as JSON values (VAL-1)."""
    add = winner.entry.add
    if isinstance(add, AddedFiles):
        column = add.columns.get(name)
        return None if column is None else [column[i] for i in at]
    if winner.files is None or name not in winner.files.column_names:
        return None
    values = winner.files[name].take(at).combine_chunks()
    kinds = (
        {"decimal128": Decimal(values.type.precision, values.type.scale)}
        if (str(values.type).startswith("decimal"))
        else {}
    )
    return encode(values, kinds.get("decimal128", _plain(str(values.type))))


_NAMES = {"date32[day]": "date", "float": "float", "double": "double", "binary": "binary"}


def _plain(kind: str) -> Primitive:
    """The name of the type by which a value is encoded; those of integers and text are alike."""
    if kind.startswith("timestamp"):
        return Primitive("timestamp")
    return Primitive(_NAMES.get(kind, "string"))
