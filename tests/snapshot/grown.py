"""Tables with random histories, and all facts of a log about one version."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tablefmt.changes.feed_plan import plan_changes
from tablefmt.changes.version_range import Covered
from tablefmt.errors import TablefmtError
from tablefmt.expressions.sql_to_predicate import parse_conjuncts
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.operations.append import append
from tablefmt.session.commit_options import CommitOptions
from tablefmt.snapshot.cursors import position
from tablefmt.snapshot.log_view import LogView
from tablefmt.table import Table
from tests.compactions import CLUSTER, MAJOR, MINOR, compact
from tests.tables import rows

CONDITIONS = ["id = 3", "id > 40 AND p = 'a'", "p <> 'b' OR id < 5", "p IS NULL", "v = 1"]


def grow(table: Table, chance: random.Random, steps: int) -> None:
    """Commits of every kind, some of them refused or without effect."""
    for step in range(steps):
        try:
            commit_one(table, chance, step)
        except TablefmtError:
            pass
        table.context.environment.sleep(chance.choice([0.0, 0.5, 60.0]))


def commit_one(table: Table, chance: random.Random, step: int) -> None:
    some = [chance.randrange(60) for _ in range(chance.randrange(1, 5))]
    places = [chance.choice("abc") for _ in some]
    one, data = places[0], rows(*some, p=places)
    kinds: list[tuple[int, Callable[[], Any]]] = [
        (6, lambda: table.append(data)),
        (2, lambda: table.append(data, application=("app", step))),
        (2, lambda: table.append(data.append_column("v", [some]), merge_schema=True)),
        (4, lambda: table.delete(f"id IN ({', '.join(map(str, some))})")),
        (2, lambda: table.update({"id": "id + 1"}, f"id % 7 = {some[0] % 7}")),
        (1, lambda: table.delete(f"p = '{one}'")),
        (2, lambda: table.overwrite(rows(*some, p=one), where=f"p = '{one}'")),
        (1, lambda: table.overwrite(data)),
        (1, lambda: table.alter.set_properties({"user.note": str(step)})),
        (1, lambda: table.alter.widen_column("n", "bigint")),
        (1, lambda: table.restore(version=table.version - chance.randrange(1, 6))),
        (3, lambda: compacted(table, chance.choice([MINOR, MAJOR, CLUSTER]))),
        (2, lambda: taken(table, data, chance.choice(["", "other"]), step)),
    ]
    weights, works = zip(*kinds, strict=True)
    chance.choices(works, weights)[0]()


def taken(table: Table, data: pa.Table, name: str, step: int) -> None:
    """An append that moves a cursor (ENT-15)."""
    key = ("5" * 32, name)
    start = position(table.context.begin().cursors, key)
    to = version_after(start, step)
    location = None if step % 3 else f"place {step}"
    derived = DerivedFrom(*key, start, to, f"{to:064x}", location)
    append(table.context, data, CommitOptions(derived_from=derived))


def version_after(start: int | None, step: int) -> int:
    """The version that is taken next."""
    return (0 if start is None else start + 1) + step % 4


def compacted(table: Table, cls: Any) -> None:
    """One group a partition."""

    def choose(files: pa.Table) -> Iterator[list[int]]:
        name = next((n for n in files.column_names if n.startswith("partition.")), None)
        places = files[name].to_pylist() if name else [None] * files.num_rows
        for place in sorted(set(places), key=str):
            yield [i for i, p in zip(files["id"].to_pylist(), places, strict=True) if p == place]

    sort = (lambda data: data.sort_by("id")) if cls is CLUSTER else None
    table.transaction().stage(compact(cls, choose, sort)).commit()


def plain(files: pa.Table) -> list[dict[str, Any]]:
    """Return the known facts of each file."""
    return [{k: v for k, v in file.items() if v is not None} for file in files.to_pylist()]


def said_of(view: LogView, version: int) -> dict[str, Any]:
    """Return all facts of a log about one version."""
    snapshot = view.snapshot(version)
    conditions = [parse_conjuncts(text, snapshot.schema, "UTC")[0] for text in CONDITIONS]
    chosen = [snapshot.matching(understood[0]) for understood in conditions if understood]
    return {
        "files": plain(snapshot.with_vectors(snapshot.files)),
        "chosen": [plain(files) for files in chosen],
        "metadata": (snapshot.metadata, view.metadata_at(version)),
        "sums": (snapshot.totals, view.totals_at(version)),
        "times": (snapshot.timestamp, snapshot.time_version, view.timestamp_at(version)),
    }


def changes_of(view: LogView, first: int, last: int) -> Any:
    """Return the inserted and deleted rows, or the error."""
    try:
        found = plan_changes(view, Covered(first, last, True))
    except TablefmtError as error:
        return str(error)
    return [(c.version, c.timestamp, c.change, plain(c.files)) for c in found]
