"""Documented operations of Delta, Iceberg, delta-rs and PyIceberg run after one change.

Those without Spark run at each change. Those on Spark run in the soak, and a share of them at each
change: see tests/spark/entry. To run them, print the ratios and write down their outcomes:
`python -m tests.compat.documented.on_arrow --record`, and `… .on_spark --record`.
"""

from __future__ import annotations

import pytest

from tests.compat.documented.delta_rs import DELTA_RS
from tests.compat.documented.delta_spark import DELTA
from tests.compat.documented.iceberg_spark import ICEBERG
from tests.compat.documented.on_arrow import problem
from tests.compat.documented.operation import Documentation, digests, ids_of, recorded
from tests.compat.documented.py_iceberg import PY_ICEBERG

ALL = (DELTA, ICEBERG, DELTA_RS, PY_ICEBERG)
LEAST = 0.95
PYTHON = {
    f"{each.name}: {name}": (each, operation)
    for each in (DELTA_RS, PY_ICEBERG)
    for name, operation in ids_of(each).items()
}


@pytest.mark.parametrize("documentation", ALL, ids=lambda each: each.name)
def test_nearly_all_operations_of_features_that_are_here_run(documentation: Documentation) -> None:
    here = [one for one in documentation.operations if one.runs or not one.gives.absent]
    assert sum(one.runs for one in here) / len(here) >= LEAST, documentation.ratio()


def test_every_operation_ran_as_it_is_today_and_gave_what_it_should() -> None:
    """To run operations and write that down: `… .on_spark --record [part of a name …]`.

    Operations on Spark take too long for each change. So a run writes a digest of each operation
    whose outcome was the expected one. An operation that changed since, or differed, has no such
    digest.
    """
    now, then = digests(ALL), recorded()
    assert sorted(name for name in now if then.get(name) != now[name]) == []
    assert sorted(then.keys() - now.keys()) == []


@pytest.mark.parametrize("name", sorted(PYTHON))
def test_an_operation_gives_what_it_should(name: str) -> None:
    assert problem(*PYTHON[name]) is None
