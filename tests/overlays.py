"""MRG-1: values of structs after `SET *` and `INSERT *` with schema merging, in plain Python.

The model of rows and tables is `tablefmt.testing.reference_model`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tablefmt.testing import reference_model
from tablefmt.testing.reference_model import Column, State, Term, When, column, compared

Row = dict[str, Any]
Kind = Mapping[str, Any]
"""The fields of a struct by name: None, or the kind of a nested struct."""

DDL = "id INT, v STRUCT<a: INT, b: STRING, c: STRUCT<d: INT, e: DATE>>"
TABLE: Kind = {"a": None, "b": None, "c": {"d": None, "e": None}}

OLD: list[Any] = [
    None,
    {"a": 1, "b": "x", "c": {"d": 1, "e": None}},
    {"a": 3, "b": None, "c": None},
    {"a": None, "b": None, "c": {"d": None, "e": None}},
]

_TYPES = {"a": pa.int32(), "b": pa.string(), "d": pa.int32(), "e": pa.date32(), "z": pa.int64()}
LACKING: Kind = {"c": {"z": None, "d": None}, "a": None, "z": None}
"""A source without two of the table's fields, with two more, in another order."""
COMPLETE: Kind = {"z": None, "c": {"e": None, "d": None}, "b": None, "a": None}
"""A source with all fields, and one more."""


def arrow_kind(kind: Kind) -> pa.StructType:
    return pa.struct(
        [(n, _TYPES[n] if inner is None else arrow_kind(inner)) for n, inner in kind.items()]
    )


def _value(kind: Kind, number: int) -> Row:
    values = {"a": number, "b": str(number), "d": number, "e": None, "z": -number}
    return {n: values[n] if i is None else _value(i, number) for n, i in kind.items()}


def source_values(kind: Kind) -> list[Any]:
    whole = _value(kind, 9)
    return [None, whole, {**whole, "c": None}, dict.fromkeys(kind)]


def target_rows() -> list[Row]:
    """Every old value beside every new one."""
    pairs = itertools.product(OLD, range(4))
    return [{"id": at, "v": old} for at, (old, _) in enumerate(pairs)]


def source_rows(kind: Kind) -> pa.Table:
    """Return a row for each row of the table, and one more of each value that matches none."""
    values = source_values(kind)
    rows = [{"v": values[at % 4], "id": at} for at in range(4 * len(OLD) + 4)]
    return pa.Table.from_pylist(rows, pa.schema([("v", arrow_kind(kind)), ("id", pa.int32())]))


def expected(kind: Kind) -> list[Row]:
    """The table's rows after `SET *` and `INSERT *` of `source_rows`."""
    state = State((Column("id", ""), Column("v", "")))
    state = reference_model.appended(state, target_rows()).state
    after = _both(TABLE, kind)
    ids = {"id": column("id", "s")}
    over = Term("v", lambda t, s: _over(s["v"], t["v"], kind, TABLE))
    filled = Term("v", lambda t, s: _filled(s["v"], after))
    whens = [
        When("matched", None, {**ids, "v": over}),
        When("not_matched", None, {**ids, "v": filled}),
    ]
    same = compared(column("id"), "=", column("id", "s"))
    state = reference_model.merged(state, source_rows(kind).to_pylist(), same, whens).state
    return sorted(map(state.named, state.rows), key=lambda row: int(row["id"]))


def _lacks(given: Kind, there: Kind) -> bool:
    return any(
        name not in given or (inner is not None and _lacks(given[name], inner))
        for name, inner in there.items()
    )


def _both(one: Kind, two: Kind) -> Kind:
    made = dict(one)
    for name, inner in two.items():
        made[name] = _both(made.get(name) or {}, inner) if inner is not None else None
    return made


def _over(new: Any, old: Any, given: Kind, there: Kind) -> Any:
    if new is None and (old is None or not _lacks(given, there)):
        return None
    made: Row = {}
    for name in _both(there, given):
        mine, theirs = (old or {}).get(name), (new or {}).get(name)
        if name not in given:
            made[name] = mine
        elif there.get(name) is not None:
            made[name] = _over(theirs, mine, given[name], there[name])
        else:
            made[name] = theirs
    return made


def _filled(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    return {
        n: value.get(n) if inner is None else _filled(value.get(n), inner)
        for n, inner in kind.items()
    }
