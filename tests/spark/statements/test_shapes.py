"""Plans that Spark sends to executors, over tables of every kind, beside plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tests.spark.shapes import HISTORIES, SHAPES, Rows, World

SETTINGS = tuple(product(("false", "true"), repeat=2))
"""Adaptive execution, and code for whole stages."""


def cases() -> Iterator[Any]:
    """Return all combinations. At every change: each pair of shape and table, and of settings."""
    tables = list(product(([], ["p"]), HISTORIES))
    for (at, (by, history)), (nth, shape) in product(enumerate(tables), enumerate(SHAPES)):
        for number, settings in enumerate(SETTINGS):
            marks = [pytest.mark.soak] if number != (at + nth) % len(SETTINGS) else []
            name = "-".join((history.__name__, *by, shape.__name__, *settings))
            yield pytest.param(by, history, shape, settings, id=name, marks=marks)


@pytest.mark.share(12)
@pytest.mark.parametrize(("partition_by", "history", "shape", "settings"), list(cases()))
def test_a_shape_of_plan_gives_the_rows_of_the_model(
    spark: Any,
    catalog: None,
    uri: str,
    partition_by: list[str],
    history: Callable[[str, list[str]], Rows],
    shape: Callable[[World], None],
    settings: tuple[str, str],
) -> None:
    names = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    before = [spark.conf.get(name) for name in names]
    rows = history(uri, partition_by)
    try:
        for name, value in zip(names, settings, strict=True):
            spark.conf.set(name, value)
        shape(World(spark, uri, rows))
    finally:
        for name, value in zip(names, before, strict=True):
            spark.conf.set(name, value)
