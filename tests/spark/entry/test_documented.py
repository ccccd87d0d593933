"""Documented operations of Delta and Iceberg for Spark run after one change: see tests/compat."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compat.documented.on_spark import DOCUMENTATIONS, problem
from tests.compat.documented.operation import ids_of

OPERATIONS = {
    f"{each.name}: {name}": (each, operation)
    for each in DOCUMENTATIONS
    for name, operation in ids_of(each).items()
}


@pytest.mark.share(25)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_gives_what_it_should(spark: Any, catalog: None, name: str) -> None:
    assert problem(spark, *OPERATIONS[name]) is None
