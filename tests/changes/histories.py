"""Random histories of every kind of commit, beside a plain Python model of each one's row changes.

The model knows rows and nothing of files: an operation says which rows went and which came, and as
what. Rows are dicts by the number of a column, which stays when it is renamed; what a version shows
of them is `shown`.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import tablefmt
from tablefmt.model.log_entry import OperationClass
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tests.compactions import CLUSTER, MAJOR, MINOR, compact

Row = dict[int, Any]
Change = tuple[str, Row]
Shown = tuple[Any, ...]

_numbers = itertools.count()

ARROW = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string()}


@dataclass(frozen=True)
class Column:
    number: int
    name: str
    kind: str
    initial: Any = None


@dataclass(frozen=True)
class Version:
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    changes: tuple[Change, ...] = ()
    restores: bool = False
    """Equal rows of `changes` cancel each other."""
    following: int = 3
    """The number of the next column."""

    def shown(self, rows: Iterable[Row], lost: frozenset[int] = frozenset()) -> list[Shown]:
        """Rows of this version or another, with the columns of this one; None in those `lost`."""
        return [
            tuple(None if c.number in lost else row.get(c.number, c.initial) for c in self.columns)
            for row in rows
        ]


K, P, V = 0, 1, 2
COLUMNS = (Column(K, "k", "BIGINT"), Column(P, "p", "STRING"), Column(V, "v", "INT"))

Test = Callable[[Row], bool]
CONDITIONS: list[tuple[str, Test]] = [
    ("p = 'a'", lambda r: r[P] == "a"),
    ("k < 12", lambda r: r[K] < 12),
    ("k >= 5 AND k < 20", lambda r: 5 <= r[K] < 20),
    ("v IS NULL OR v = 1", lambda r: r.get(V) in (None, 1)),
    ("v > 2", lambda r: r.get(V) is not None and r[V] > 2),
    ("k IN (3, 4, 5, 6, 30, 31)", lambda r: r[K] in (3, 4, 5, 6, 30, 31)),
]


class History:
    """One table, and what its versions hold."""

    def __init__(self, seed: int, uri: str | None = None, **properties: str) -> None:
        self.chance = random.Random(seed)
        self.uri = uri or f"memory://feed-{next(_numbers)}"
        columns = "k BIGINT, p STRING, v INT"
        partition_by = ["p"] if self.chance.random() < 0.4 else []
        mode = self.chance.choice(["merge-on-read", "merge-on-read", "copy-on-write"])
        self.table = tablefmt.create(
            self.uri,
            columns,
            partition_by=partition_by,
            properties={"deleteMode": mode, **properties},
        )
        self.versions = [Version(COLUMNS, ())]
        self.names = itertools.count()
        self.numbers = itertools.count(V + 1)
        self.keys = itertools.count()

    @property
    def now(self) -> Version:
        return self.versions[-1]

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self.step()
        return self

    def step(self) -> None:
        verbs = [
            self.append, self.append, self.overwrite, self.overwrite_some, self.delete, self.delete,
            self.update, self.update, self.merge, self.merge, self.truncate, self.compact,
            self.compact, self.alter, self.restore,
        ]  # fmt: skip
        self.chance.choice(verbs)()
        self.table.refresh()
        assert self.table.version == len(self.versions) - 1, self.table.history(1)

    def _note(self, changes: Sequence[Change], *, always: bool = False) -> None:
        """A version in which these rows went and came; none without any."""
        if not changes and not always:
            return
        left = list(self.now.rows)
        for kind, row in changes:
            if kind in ("delete", "update_preimage"):
                left.remove(row)
        came = [row for kind, row in changes if kind in ("insert", "update_postimage")]
        self.versions.append(
            replace(self.now, rows=(*left, *came), changes=tuple(changes), restores=False)
        )

    def _altered(self, columns: Sequence[Column]) -> None:
        following = max(self.now.following, 1 + max(c.number for c in columns))
        self.versions.append(
            replace(
                self.now, columns=tuple(columns), changes=(), restores=False, following=following
            )
        )

    def rows(self, most: int = 8) -> list[Row]:
        """New rows, some of them equal to others."""
        made = []
        for _ in range(self.chance.randint(1, most)):
            key = next(self.keys) if self.chance.random() < 0.8 else self.chance.randint(0, 40)
            row = {c.number: self.value(c) for c in self.now.columns}
            made.append({**row, K: key})
        return made

    def value(self, column: Column) -> Any:
        if column.number == P:
            return self.chance.choice(["a", "b", None])
        if column.kind == "STRING":
            return self.chance.choice(["x", "", None])
        return self.chance.choice([None, 0, 1, 2, 3, 4])

    def data(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> pa.Table:
        columns = self.now.columns if columns is None else columns
        arrays = [pa.array([r[c.number] for r in rows], ARROW[c.kind]) for c in columns]
        return pa.table(arrays, [c.name for c in columns])

    def condition(self, version: Version | None = None) -> tuple[str, Test]:
        """Return a condition over the columns of a version, by default the newest."""
        text, holds = self.chance.choice(CONDITIONS)
        columns = (version or self.now).columns
        column = next((c for c in columns if c.number == V), None)
        if "v" in text and column is None:
            return CONDITIONS[1]
        return (text.replace("v ", f"`{column.name}` ") if column else text), holds

    def column(self, number: int) -> Column | None:
        return next((c for c in self.now.columns if c.number == number), None)

    def full(self, row: Row) -> Row:
        """A row with a value for every column, as a file written now has it."""
        return {c.number: row.get(c.number, c.initial) for c in self.now.columns}

    def append(self) -> None:
        rows = self.rows()
        self.table.append(self.data(rows))
        self._note([("insert", r) for r in rows])

    def overwrite(self) -> None:
        rows = self.rows()
        if self.chance.random() < 0.5:
            rows += [self.full(r) for r in self.now.rows][:4]
        self.table.overwrite(self.data(rows))
        gone = [("delete", r) for r in self.now.rows]
        self._note([*gone, *(("insert", r) for r in rows)])

    def overwrite_some(self) -> None:
        rows = [{**r, P: "a"} for r in self.rows(3)]
        self.table.overwrite(self.data(rows), where="p = 'a'")
        gone = [("delete", r) for r in self.now.rows if r[P] == "a"]
        self._note([*gone, *(("insert", r) for r in rows)])

    def truncate(self) -> None:
        if self.chance.random() < 0.5:
            self.table.truncate()
            self._note([("delete", r) for r in self.now.rows])

    def delete(self) -> None:
        text, holds = self.condition()
        self.table.delete(text)
        self._note([("delete", r) for r in self.now.rows if holds(self.full(r))])

    def update(self) -> None:
        text, holds = self.condition()
        number = self.chance.choice([P, V])
        column = self.column(number)
        if column is None:
            return
        value = self.value(column)
        sql = "NULL" if value is None else repr(value)
        self.table.update({f"`{column.name}`": sql}, text)
        changes: list[Change] = []
        for row in self.now.rows:
            if holds(self.full(row)):
                changes.append(("update_preimage", row))
                changes.append(("update_postimage", {**self.full(row), number: value}))
        self._note(changes)

    def merge(self) -> None:
        """Rows of known and of new keys; some are updated, some go, some come."""
        keys = sorted({r[K] for r in self.now.rows})
        known = self.chance.sample(keys, min(len(keys), 3))
        # The new one may be known too.
        known = sorted({*known, next(self.keys)})
        source = [{**self.full({}), K: k, P: "b"} for k in known]
        builder = self.table.merge(self.data(source), "t.k = s.k")
        goes = self.chance.choice(["t.p = 'a'", "FALSE"])
        builder = builder.when_matched_delete(goes).when_matched_update({"p": "s.p"})
        builder.when_not_matched_insert_all().execute()
        changes: list[Change] = []
        for row in self.now.rows:
            if row[K] in known:
                if goes != "FALSE" and row[P] == "a":
                    changes.append(("delete", row))
                else:
                    changes.append(("update_preimage", row))
                    changes.append(("update_postimage", {**self.full(row), P: "b"}))
        here = {r[K] for r in self.now.rows}
        changes += [("insert", r) for r in source if r[K] not in here]
        self._note(changes)

    def compact(self) -> None:
        """Compact some files of each partition, or cluster all of them."""
        cls = self.chance.choice([MINOR, MAJOR, CLUSTER])
        files = self.table.scan().files()
        groups: dict[str, list[int]] = {}
        for file in files.to_pylist():
            groups.setdefault(repr(file.get("partition")), []).append(file["id"])
        chosen = [ids if cls is not MINOR else ids[:2] for ids in groups.values()]
        if not chosen:
            return
        sort = None
        if cls is CLUSTER:
            sort = lambda rows: rows.sort_by([("k", "descending")])  # noqa: E731
        self.do(cls, chosen, sort)
        self.versions.append(replace(self.now, changes=(), restores=False))

    def do(self, cls: OperationClass, groups: list[list[int]], sort: Any) -> None:
        stage = compact(cls, lambda _: groups, sort)
        statement = Statement(name=cls.value, stage=lambda txn, _: stage(txn))
        autocommit(self.table.context, statement, CommitOptions())

    def alter(self) -> None:
        columns = list(self.now.columns)
        kind = self.chance.choice(["add", "add", "rename", "drop", "widen"])
        others = [c for c in columns if c.number not in (K, P)]
        if kind == "add":
            initial = self.chance.choice([None, 7])
            new = Column(next(self.numbers), f"c{next(self.names)}", "INT", initial)
            self.table.alter.add_column(new.name, "INT", default=initial)
            self._altered([*columns, new])
        elif kind == "rename" and others:
            old, name = self.chance.choice(others), f"c {next(self.names)}"
            self.table.alter.rename_column(old.name, name)
            self._altered([replace(c, name=name) if c is old else c for c in columns])
        elif kind == "drop" and others:
            old = self.chance.choice(others)
            self.table.alter.drop_column(old.name)
            self._altered([c for c in columns if c is not old])
        elif kind == "widen":
            narrow = [c for c in others if c.kind == "INT"]
            if narrow:
                old = self.chance.choice(narrow)
                self.table.alter.widen_column(old.name, "BIGINT")
                self._altered([replace(c, kind="BIGINT") if c is old else c for c in columns])

    def restore(self) -> None:
        """An older version comes back, its columns too."""
        at = self.chance.randrange(len(self.versions))
        if self.table.restore(version=at).no_op:
            return
        old = self.versions[at]
        changes = [("delete", r) for r in self.now.rows] + [("insert", r) for r in old.rows]
        self.versions.append(
            replace(old, changes=tuple(changes), restores=True, following=self.now.following)
        )

    # The expected answers

    def dropped_at(self, version: int) -> frozenset[int]:
        """Columns that a version had dropped, if others have them."""
        known = self.versions[version]
        return frozenset(range(known.following)) - {c.number for c in known.columns}

    def changes(self, a: int, b: int, shown_at: int | None = None) -> list[Expected]:
        """Return the changes of versions after `a` up to `b`, with the columns of one version."""
        end = self.versions[b if shown_at is None else shown_at]
        expected = []
        for version in range(a + 1, b + 1):
            known = self.versions[version]
            went = [(k, r) for k, r in known.changes if k in ("delete", "update_preimage")]
            came = [change for change in known.changes if change not in went]
            sides = (
                _Side(went, self.dropped_at(version - 1)),
                _Side(came, self.dropped_at(version)),
            )
            expected.append(_expected(version, end, *sides, cancels=known.restores))
        return expected

    def net(self, a: int, b: int, shown_at: int | None = None) -> Expected:
        """The difference of the rows at both ends."""
        end = self.versions[b if shown_at is None else shown_at]
        before = _Side([("delete", r) for r in self.versions[a].rows], self.dropped_at(a))
        after = _Side([("insert", r) for r in self.versions[b].rows], self.dropped_at(b))
        return _expected(b, end, before, after, cancels=True)


@dataclass(frozen=True)
class _Side:
    changes: Sequence[Change]
    gone: frozenset[int]

    def shown(self, end: Version) -> Counter[Any]:
        return Counter((kind, end.shown([row], self.gone)[0]) for kind, row in self.changes)


@dataclass(frozen=True)
class Expected:
    """The rows of one version in an answer, as (type, row)."""

    version: int
    rows: Counter[Any]
    """All that went and came. Without columns to be left out these are the rows of the answer."""
    left: Counter[Any]
    """Rows that did not cancel, without the columns in which equal rows may differ."""
    compared: tuple[int, ...]

    def check(self, answer: Counter[Any], only: str | None = None) -> None:
        """Refuse another answer of this version; `only`: of one type."""
        rows, left = (
            Counter({c: n for c, n in each.items() if only in (None, c[0])})
            for each in (self.rows, self.left)
        )
        assert not answer - rows, (self.version, answer - rows)
        shorter: Counter[Any] = Counter()
        for (kind, row), count in answer.items():
            shorter[(kind, tuple(row[at] for at in self.compared))] += count
        assert shorter == left, self.version


def _expected(version: int, end: Version, went: _Side, came: _Side, *, cancels: bool) -> Expected:
    lost = frozenset[int]().union(*(side.gone for side in (went, came) if side.changes))
    compared = tuple(at for at, c in enumerate(end.columns) if not cancels or c.number not in lost)
    before, after = (side.shown(end) for side in (went, came))
    if not cancels:
        return Expected(version, before + after, before + after, compared)
    short = [
        Counter(tuple(row[at] for at in compared) for _, row in side.elements())
        for side in (before, after)
    ]
    left = {("delete", row): n for row, n in (short[0] - short[1]).items()}
    left |= {("insert", row): n for row, n in (short[1] - short[0]).items()}
    return Expected(version, before + after, Counter(left), compared)
