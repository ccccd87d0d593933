"""Whole numbers of any type are accepted as versions, limits and application versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tablefmt.errors import (
    CommitUnknownError,
    InvalidPredicateError,
    InvalidRangeError,
    VersionNotFoundError,
)
from tablefmt.model.argument_checks import whole_from_0, whole_number
from tablefmt.table import Table
from tests.tables import handle, ids, new_table, rows

WHERE: dict[str, Callable[[Table, Any], Any]] = {
    "scan": lambda t, n: t.scan(version=n).to_arrow().num_rows,
    "to_arrow": lambda t, n: t.to_arrow(version=n).num_rows,
    "limit": lambda t, n: t.scan(limit=n).to_arrow().num_rows,
    "count": lambda t, n: t.scan(limit=n).count(),
    "history": lambda t, n: t.history(n).num_rows,
    "transaction": lambda t, n: t.transaction(read_version=n).scan().count(),
    "starting": lambda t, n: t.changes(starting_version=n).to_arrow().num_rows,
    "after": lambda t, n: t.changes(after_version=n).to_arrow().num_rows,
    "ending": lambda t, n: t.changes(starting_version=0, ending_version=n).to_arrow().num_rows,
    "resolve": lambda t, n: t.resolve("0" * 32, n),
}


def table_of_three() -> Table:
    table = new_table()
    for n in range(1, 4):
        table.append(rows(n))
    return table


@pytest.mark.parametrize("make", [np.int64, np.int8, np.uint64, np.array])
@pytest.mark.parametrize("name", WHERE)
def test_a_number_of_numpy_s_is_the_number(name: str, make: Callable[[int], Any]) -> None:
    """TIM-4, INC-1: the number equals Python's."""
    table = table_of_three()
    assert WHERE[name](table, make(2)) == WHERE[name](table, 2)


@pytest.mark.parametrize("given", [True, np.True_, 2.0, np.float64(2), "2", b"2", np.array([2])])
@pytest.mark.parametrize("name", WHERE)
def test_what_is_no_whole_number_is_refused(name: str, given: Any) -> None:
    """TIM-4, INC-1."""
    with pytest.raises((InvalidRangeError, InvalidPredicateError), match="whole number"):
        WHERE[name](table_of_three(), given)
    assert whole_number(given) is None


@pytest.mark.parametrize("name", WHERE)
def test_numbers_below_0_are_no_versions(name: str) -> None:
    """TIM-4."""
    errors = (InvalidRangeError, InvalidPredicateError, VersionNotFoundError)
    with pytest.raises(errors):
        WHERE[name](table_of_three(), np.int64(-1))
    assert (whole_from_0(np.int64(-1)), whole_from_0(np.uint8(0))) == (None, 0)


@pytest.mark.parametrize("given", [2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("name", WHERE)
def test_no_number_is_too_large_to_be_told(name: str, given: int) -> None:
    """TIM-4, CMT-9: a limit above the number of rows has no effect. Other versions do not exist."""
    table = table_of_three()
    if name in ("limit", "count", "history"):
        assert WHERE[name](table, given) == (4 if name == "history" else 3)
        return
    with pytest.raises((InvalidRangeError, VersionNotFoundError, CommitUnknownError)):
        WHERE[name](table, given)


@pytest.mark.slow
def test_application_versions_and_deadlines_are_numbers_of_any_make() -> None:
    """CFL-7, CMT-8: kept as Python's."""
    table = new_table()
    first = table.append(rows(1), application=("job", np.int64(7)), deadline=np.int64(30))
    assert first.version == 1
    again = handle(table.context.store)
    for number in (7, np.int32(7), np.uint64(7)):
        assert again.append(rows(1), application=("job", number)).already_applied
    assert again.append(rows(2), application=(np.str_("job"), np.int64(8))).version == 2
    assert ids(again) == [1, 2]
    for wrong in (np.float64(8), True, np.True_, "8"):
        with pytest.raises(InvalidRangeError, match="whole number"):
            again.append(rows(3), application=("job", wrong))  # type: ignore[arg-type]
    for late in (np.float64("nan"), 10**400):
        with pytest.raises(InvalidRangeError, match="deadline"):
            again.append(rows(3), deadline=late)
