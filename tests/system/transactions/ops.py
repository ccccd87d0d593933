"""Operations as tuples that can be printed, run twice: in plain Python, and for real.

A history is explained by the rows that each operation read, removed and added (`Effect`).
`tablefmt.testing.reference_model` computes the rows after them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.operations.transaction import Transaction
from tablefmt.testing import reference_model
from tests.compactions import CLUSTER, MAJOR, MINOR, compact
from tests.system.transactions.world import Row, Rows, data

Op = tuple[Any, ...]
Condition = tuple[Any, ...]

COMPACTIONS = ("minor", "major", "cluster")
BLIND_REPLACING = ("overwrite", "truncate")


# --- conditions ----------------------------------------------------------------------------------


def holds(condition: Condition, row: Row) -> bool:
    """Return if plain Python selects the row."""
    kind, *values = condition
    p, k, v = row
    return {
        "all": lambda: True,
        "p": lambda: p == values[0],
        "k": lambda: k in values,
        "v": lambda: v == values[0],
        "least": lambda: v >= values[0],
        "both": lambda: (p, v) == tuple(values),
        "opaque": lambda: v + 0 == values[0],
    }[kind]()


def where(condition: Condition) -> Any:
    """Return the condition for the package: SQL text, or an expression that it cannot analyze."""
    kind, *values = condition
    if kind == "opaque":
        return pc.equal(pc.add(pc.field("v"), 0), values[0])
    return {
        "all": lambda: None,
        "p": lambda: f"p = '{values[0]}'",
        "k": lambda: f"k IN ({', '.join(map(str, values))})",
        "v": lambda: f"v = {values[0]}",
        "least": lambda: f"v >= {values[0]}",
        "both": lambda: f"p = '{values[0]}' AND v = {values[1]}",
    }[kind]()


def text(condition: Condition) -> str:
    """SQL text alone."""
    found = where(condition)
    return "TRUE" if found is None else str(found)


# --- what an operation does ----------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """The rows that an operation reads and writes, of given rows."""

    read: Rows = ()
    removed: Rows = ()
    added: Rows = ()

    @property
    def writes(self) -> bool:
        """Return True if there is anything to commit."""
        return bool(self.removed or self.added)


def effect(op: Op, rows: Rows) -> Effect:
    """Return the effect of an operation, by plain Python."""
    kind, *rest = op
    made: Callable[..., Effect] = _EFFECTS[kind]
    found = made(rows, *rest)
    return Effect(*(tuple(sorted(part)) for part in (found.read, found.removed, found.added)))


def after(rows: Rows, done: Effect) -> Rows:
    """The rows once it has happened; they have to hold what is removed."""
    return tuple(sorted(reference_model.after(rows, done.removed, done.added)))


def _matching(condition: Condition, rows: Rows) -> Rows:
    return tuple(row for row in rows if holds(condition, row))


def _delete(rows: Rows, condition: Condition) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, found)


def _update(rows: Rows, condition: Condition, change: str, value: Any) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, found, tuple(changed(row, change, value) for row in found))


def changed(row: Row, change: str, value: Any) -> Row:
    """The new version of a row."""
    p, k, v = row
    return {"set": (p, k, value), "bump": (p, k, (v + 1) % 3), "move": (value, k, v)}[change]


def _merge(rows: Rows, place: str | None, source: Rows) -> Effect:
    values = {k: v for _, k, v in source}
    found = tuple(r for r in rows if r[1] in values and (place is None or r[0] == place))
    known = {k for _, k, _ in found}
    new = tuple(row for row in source if row[1] not in known)
    return Effect(found, found, (*((p, k, values[k]) for p, k, _ in found), *new))


def _copy(rows: Rows, condition: Condition, place: str, key: int) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, (), ((place, key, 10 + len(found)),))


def _scan_delete(rows: Rows, condition: Condition, least: int, goes: Condition) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, _matching(goes, rows) if len(found) >= least else ())


def _scan_overwrite(rows: Rows, condition: Condition, place: str, key: int) -> Effect:
    found = _matching(condition, rows)
    row = (place, key, 10 + len(found))
    return Effect(found, tuple(r for r in rows if r[0] == place), (row,))


def _overwrite(rows: Rows, place: str | None, new: Rows = ()) -> Effect:
    return Effect((), tuple(r for r in rows if place is None or r[0] == place), new)


_EFFECTS: dict[str, Callable[..., Effect]] = {
    "append": lambda rows, new: Effect((), (), new),
    "overwrite": _overwrite,
    "truncate": _overwrite,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "copy": _copy,
    "scan_delete": _scan_delete,
    "scan_overwrite": _scan_overwrite,
    **dict.fromkeys(COMPACTIONS, lambda rows, *_: Effect()),
}


# --- on the real stack ---------------------------------------------------------------------------


def stage(op: Op, txn: Transaction) -> Rows | None:
    """Stage the operation; gives what it scanned, None if it does not scan."""
    kind, *rest = op
    staged: Callable[..., Rows | None] = _STAGES[kind]
    return staged(txn, *rest)


def _place(place: str | None) -> str | None:
    return None if place is None else f"p = '{place}'"


def _stage_append(txn: Transaction, new: Rows) -> None:
    for row in new:
        txn.append(data([row]))


def _stage_update(txn: Transaction, condition: Condition, change: str, value: Any) -> None:
    values = {"set": {"v": f"{value}"}, "bump": {"v": "(v + 1) % 3"}, "move": {"p": f"'{value}'"}}
    txn.update(values[change], where(condition))


def _stage_merge(txn: Transaction, place: str | None, new: Rows) -> None:
    on = "t.k = s.k" if place is None else f"t.k = s.k AND t.{_place(place)}"
    builder = txn.merge(data(new), on).when_matched_update({"v": "s.v"})
    builder.when_not_matched_insert_all().execute()


def _scanned(txn: Transaction, condition: Condition) -> Rows:
    table = txn.scan(where=where(condition)).to_arrow()
    return tuple(sorted(zip(*(table[n].to_pylist() for n in ("p", "k", "v")), strict=True)))


def _stage_copy(txn: Transaction, condition: Condition, place: str, key: int) -> Rows:
    found = _scanned(txn, condition)
    txn.append(data([(place, key, 10 + len(found))]))
    return found


def _stage_scan_delete(txn: Transaction, condition: Condition, least: int, goes: Condition) -> Rows:
    found = _scanned(txn, condition)
    if len(found) >= least:
        txn.delete(where(goes))
    return found


def _stage_scan_overwrite(txn: Transaction, condition: Condition, place: str, key: int) -> Rows:
    found = _scanned(txn, condition)
    rows = data([(place, key, 10 + len(found))])
    txn.overwrite(rows, where=_place(place))
    return found


def _stage_compact(cls: Any) -> Callable[[Transaction, int], None]:
    def staged(txn: Transaction, seed: int) -> None:
        sort = (lambda t: t.sort_by([("v", "descending")])) if cls is CLUSTER else None
        txn.stage(compact(cls, lambda files: _groups(cls, files, seed), sort))

    return staged


def _groups(cls: Any, files: pa.Table, seed: int) -> list[list[int]]:
    """Return files to compact: of one partition each, for MAJOR all files of a partition."""
    rng = random.Random(seed)
    names = [n for n in files.column_names if n.startswith("partition.")]
    places = files[names[0]].to_pylist() if names else [None] * files.num_rows
    groups: list[list[int]] = []
    for place in sorted(set(places), key=str):
        ids = [i for i, at in zip(files["id"].to_pylist(), places, strict=True) if at == place]
        if rng.random() < 0.3:
            continue
        if cls is MINOR:
            cut = rng.randint(0, len(ids))
            groups += [part for part in (ids[:cut], ids[cut:]) if len(part) > 1]
        else:
            groups.append(ids)
    return groups


_STAGES: dict[str, Callable[..., Rows | None]] = {
    "append": _stage_append,
    "overwrite": lambda t, place, new: t.overwrite(data(new), where=_place(place)) and None,
    "truncate": lambda t, place: t.truncate(_place(place)) and None,
    "delete": lambda t, condition: t.delete(where(condition)) and None,
    "update": _stage_update,
    "merge": _stage_merge,
    "copy": _stage_copy,
    "scan_delete": _stage_scan_delete,
    "scan_overwrite": _stage_scan_overwrite,
    "minor": _stage_compact(MINOR),
    "major": _stage_compact(MAJOR),
    "cluster": _stage_compact(CLUSTER),
}
