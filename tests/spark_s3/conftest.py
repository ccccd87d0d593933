"""The one Spark session of tests/spark, which has the jars for S3, and a recording server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning:pyspark.*"))
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker("spark")
