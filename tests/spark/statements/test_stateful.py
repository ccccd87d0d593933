"""The same statements on either backend, and every version read by Spark too. DEL, SCH, DAT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.system.stateful.changing import Changing


@pytest.mark.parametrize(
    ("examples", "steps"), [(3, 10), pytest.param(60, 20, marks=pytest.mark.soak)]
)
def test_statements_on_either_backend_equal_the_model(
    spark: Any, tmp_path: Path, examples: int, steps: int
) -> None:
    class OnEither(Changing):
        pass

    OnEither.spark, OnEither.folder = spark, str(tmp_path)
    run_state_machine_as_test(
        OnEither,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
