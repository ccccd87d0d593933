"""Keyed pipes whose source gets a second row of a key, or another zero, beside a plain model.

Spec: PIP-5.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import MergeCardinalityError
from tablefmt.table import Table
from tests.tables import memory

Row = tuple[Any, ...]


def bits(value: Any) -> Any:
    """A value that tells zeros apart, and equals itself."""
    return (str(abs(value)), math.copysign(1, value)) if isinstance(value, float) else value


def shown(table: Table) -> Counter[Row]:
    rows = table.refresh().to_arrow().to_pylist()
    return Counter(tuple(map(bits, row.values())) for row in rows)


def made(kind: str = "BIGINT") -> tuple[Table, Table]:
    """A source with two rows, and the target after a first run."""
    here = tablefmt.create(memory().uri, f"k {kind}, v STRING")
    here.append([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    there = memory().uri
    tablefmt.pipe(here).into(there, keys="k")
    return here, tablefmt.open(there)


def test_a_second_row_of_a_key_in_a_later_run_is_refused() -> None:
    """PIP-5: it names the keys, the target is as it was, and the cursor where it was."""
    here, there = made()
    here.append([{"k": 1, "v": "second"}, {"k": 3, "v": "c"}])
    version = there.refresh().version
    for _ in range(2):
        with pytest.raises(MergeCardinalityError, match="several rows with the same key") as caught:
            tablefmt.pipe(here).into(there, keys="k")
        assert caught.value.keys == [{"k": 1}]
        assert there.refresh().version == version
    here.delete("v = 'a'")
    run = tablefmt.pipe(here).into(there, keys="k")
    assert run.first_version == 2
    assert shown(there) == shown(here) == Counter({(1, "second"): 1, (2, "b"): 1, (3, "c"): 1})


def test_an_equal_second_row_is_refused_too() -> None:
    """PIP-5: this holds also if all columns are keys."""
    here = tablefmt.create(memory().uri, "k BIGINT")
    here.append([{"k": 1}])
    tablefmt.pipe(here).into(there := memory().uri, keys="k")
    here.append([{"k": 1}])
    with pytest.raises(MergeCardinalityError):
        tablefmt.pipe(here).into(there, keys="k")


def test_a_row_that_somebody_else_wrote_is_no_second_one() -> None:
    """PIP-5, PIP-6: rows from before the first run are no second ones either."""
    here, there = made()
    there.append([{"k": 3, "v": "theirs"}, {"k": 9, "v": "theirs"}])
    here.append([{"k": 3, "v": "ours"}])
    tablefmt.pipe(here).into(there, keys="k")
    assert shown(there) == Counter({(1, "a"): 1, (2, "b"): 1, (3, "ours"): 1, (9, "theirs"): 1})
    filled = tablefmt.create(memory().uri, "k BIGINT, v STRING")
    filled.append([{"k": 1, "v": "theirs"}])
    tablefmt.pipe(here).into(filled, keys="k")
    assert shown(filled) == shown(here)


def test_second_rows_go_by_condition_and_function() -> None:
    """PIP-5: keys are those of what the function gives, of rows that the condition lets through."""
    here = tablefmt.create(memory().uri, "k BIGINT, v STRING")
    here.append([{"k": 1, "v": "a"}, {"k": 2, "v": "no"}])

    def halved(rows: pa.Table) -> pa.Table:
        return pa.table({"key": [k // 2 for k in rows["k"].to_pylist()], "v": rows["v"]})

    pipe = tablefmt.pipe(here, where="v <> 'no'", transform=halved)
    pipe.into(there := memory().uri, keys="key")
    here.append([{"k": 0, "v": "no"}, {"k": 2, "v": "b"}])
    pipe.into(there, keys="key")
    assert shown(tablefmt.open(there)) == Counter({(0, "a"): 1, (1, "b"): 1})
    here.append([{"k": 3, "v": "c"}])
    with pytest.raises(MergeCardinalityError) as caught:
        pipe.into(there, keys="key")
    assert caught.value.keys == [{"key": 1}]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("columns", ["k {0}, v STRING", "k {0}"])
def test_a_zero_that_changes_its_sign_changes_it_in_the_target(kind: str, columns: str) -> None:
    """PIP-5, INC-6: the target is the source by value, where conditions find no difference."""
    here = tablefmt.create(memory().uri, columns.format(kind))
    names = here.schema.names
    here.append([{name: {"k": 0.0, "v": "a"}[name] for name in names}])
    tablefmt.pipe(here).into(there := memory().uri, keys="k")
    for zero in (-0.0, 0.0, -0.0):
        here.overwrite([{name: {"k": zero, "v": "a"}[name] for name in names}])
        tablefmt.pipe(here).into(there, keys="k")
        assert shown(tablefmt.open(there)) == shown(here)
    here.append([{name: {"k": 0.0, "v": "b"}[name] for name in names}])
    with pytest.raises(MergeCardinalityError):
        tablefmt.pipe(here).into(there, keys="k")


def check_history(seed: int) -> None:
    """Changes of a source, restores of both sides, and runs of a pipe.

    The model is the source: a run ends in its rows if its keys are distinct, and else in an error
    that leaves the target as it was.
    """
    chance = random.Random(seed)
    here = tablefmt.create(memory().uri, "k DOUBLE, v BIGINT")
    there = tablefmt.create(memory().uri, "k DOUBLE, v BIGINT")
    pipe = tablefmt.pipe(here)

    def one() -> float:
        return chance.choice([0.0, -0.0, 1.0, 2.0, 3.0, float("nan")][: 5 if seed % 3 else 6])

    def distinct(rows: Counter[Row]) -> bool:
        keys = [row[0][0] for row in rows.elements()]
        return len(set(keys)) == len(keys)

    for step in range(14):
        what = chance.choice(["append", "append", "delete", "update", "zero", "here", "there"])
        if what == "append":
            here.append([{"k": one(), "v": step} for _ in range(chance.randint(1, 2))])
        elif what == "delete":
            here.delete(f"k = {chance.randint(0, 3)} AND v % 2 = {chance.randint(0, 1)}")
        elif what == "update":
            here.update({"v": "v + 100"}, f"k < {chance.randint(0, 4)}")
        elif what == "zero":
            here.update({"k": "-k"}, "k = 0")
        elif what == "here":
            here.restore(version=chance.randrange(here.refresh().version + 1))
        elif chance.random() < 0.5:
            there.restore(version=chance.randrange(there.refresh().version + 1))
        if chance.random() < 0.4:
            continue
        before, version = shown(there), there.refresh().version
        wanted = shown(here)
        if distinct(wanted):
            pipe.into(there, keys="k")
            assert shown(there) == wanted, (seed, step)
        else:
            with pytest.raises(MergeCardinalityError):
                pipe.into(there, keys="k")
            assert (shown(there), there.refresh().version) == (before, version), (seed, step)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(8))
def test_a_run_ends_in_the_sources_rows_or_in_an_error(seed: int) -> None:
    """PIP-5."""
    check_history(seed)


@pytest.mark.soak
def test_many_runs_end_in_the_sources_rows_or_in_an_error(first_seed: int) -> None:
    """PIP-5."""
    for seed in range(first_seed, first_seed + 300):
        check_history(seed)
