"""Random histories with restores, vacuums, expiries and drops, beside a plain model of versions.

Every version that is kept reads as the model says, every other is refused by name, and nothing that
a kept version needs is ever removed.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import ChangesExpiredError, VersionNotFoundError
from tablefmt.maintenance.drop import drop_at
from tablefmt.session.commit_options import CommitOptions
from tests.tables import Clock, Dated, assert_sound, handle, new_table

Content = list[tuple[Any, ...]]

DAY = 86_400.0
VERBS = (
    ["append"] * 5
    + ["delete", "update", "overwrite", "compact", "add", "drop column"]
    + ["restore"] * 4
    + ["vacuum"] * 3
    + ["expire", "sleep", "sleep", "table"]
)


def as_content(rows: pa.Table) -> Content:
    """Rows as tuples of the columns' names and values."""
    return sorted((tuple(sorted(row.items())) for row in rows.to_pylist()), key=repr)


class History:
    """A table, and what every version of it holds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.store = Dated(self.clock)
        self.table = new_table(self.store, clock=self.clock, partitioned=seed % 2 == 0)
        self.known: dict[int, Content] = {0: []}
        self.oldest = self.made = 0
        self.columns = 0

    def rows(self) -> pa.Table:
        """Two rows for the columns that there are."""
        values = [self.random.randrange(30) for _ in range(2)]
        columns: dict[str, Any] = {"id": pa.array(values, pa.int64()), "p": ["a", "b"]}
        for name in self.table.schema.names[2:]:
            columns[name] = pa.array([self.random.randrange(9)] * 2, pa.int32())
        return pa.table(columns)

    def content(self, version: int | None = None) -> Content:
        """Rows as tuples of the columns' names and values."""
        return as_content(handle(self.store, self.clock).to_arrow(version=version))

    def step(self) -> None:
        verb, number = self.random.choice(VERBS), self.random.randrange(30)
        table = self.table
        self.clock.forward(self.random.choice([1, DAY]))
        if verb == "append":
            table.append(self.rows())
        elif verb == "delete":
            table.delete(f"id < {number}")
        elif verb == "update":
            table.update({"id": "id + 1"}, f"id > {number}")
        elif verb == "overwrite":
            table.overwrite(self.rows())
        elif verb == "compact":
            table.compact("major")
        elif verb == "add":
            self.columns += 1
            table.alter.add_column(f"c{self.columns}", "INT", default=number)
        elif verb == "drop column" and len(table.schema.names) > 2:
            table.alter.drop_column(self.random.choice(table.schema.names[2:]))
        elif verb == "restore":
            version = self.random.randint(self.oldest, max(self.known))
            expected = self.known[version]
            table.restore(version=version)
            assert self.content() == expected
        elif verb == "vacuum":
            days = self.random.choice([0, 2, 7])
            dangerous = days < 7
            report = table.vacuum(
                retention=days * DAY, dry_run=False, breaks_running_transactions=dangerous
            )
            assert not report.failures
        elif verb == "expire":
            table.expire_log(
                retention=DAY * number, dry_run=False, breaks_running_transactions=True
            )
        elif verb == "sleep":
            self.clock.forward(DAY * number)
        elif verb == "table" and number < 6:
            drop_at(self.store, CommitOptions(), environment=self.clock.environment())
            self.table = new_table(self.store, clock=self.clock)
            self.columns, self.made = 0, self.table.version
        self.note()

    def note(self) -> None:
        """Note the content of the newest version. All that older versions hold must stay."""
        fresh = handle(self.store, self.clock)
        last = max(self.known)
        assert fresh.version >= last
        newest = self.content()
        for version in range(last + 1, fresh.version + 1):
            # If a call makes several commits, only the last changes rows.
            self.known[version] = newest if version == fresh.version else self.known[last]
        self.oldest = fresh.oldest_version

    def check(self) -> None:
        fresh = handle(self.store, self.clock)
        for version, expected in self.known.items():
            if version >= self.oldest:
                assert self.content(version) == expected, version
                continue
            with pytest.raises(VersionNotFoundError):
                fresh.to_arrow(version=version)
            if version + 1 == self.oldest == self.made:
                # The table begins after it, so that nothing is missing.
                net = fresh.changes(after_version=version, content="net").to_arrow()
                assert set(net["_change_type"].to_pylist()) <= {"insert"}
                assert as_content(net.select(fresh.schema.names)) == self.content()
            else:
                with pytest.raises(ChangesExpiredError):
                    fresh.changes(after_version=version)
            with pytest.raises(VersionNotFoundError):
                fresh.restore(version=version)
        assert_sound(self.store)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_reads_as_it_was_and_the_rest_is_refused(seed: int) -> None:
    """RET-1, RET-2, RET-5, RET-6, RET-8, RET-9, ENT-13, ENT-14."""
    history = History(seed)
    for number in range(24):
        history.step()
        if number % 6 == 5:
            history.check()


@pytest.mark.soak
def test_many_histories(first_seed: int) -> None:
    """The same, for long."""
    for seed in range(first_seed, first_seed + 300):
        history = History(seed)
        for number in range(40):
            history.step()
            if number % 8 == 7:
                history.check()
