"""Every procedure of Iceberg is run or refused by name. tests/compat/documented runs them."""

from __future__ import annotations

import pytest

from tablefmt.expressions.procedure_calls import PROCEDURES, REFUSED
from tablefmt.spark.entry.procedure_verbs import refusal, result_of


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_every_procedure_has_a_result_or_a_refusal(name: str) -> None:
    error = refusal(name)
    if name in REFUSED:
        assert error is not None
        assert error.features == [f"procedure:{name}"]
        assert REFUSED[name] in str(error)
    else:
        assert error is None
        assert result_of(name).names
