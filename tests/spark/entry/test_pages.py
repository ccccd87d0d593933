"""Pages of the documentation that use Spark: their blocks of code run in the session of all tests.

tests/documents/test_examples.py runs the other pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents.pages import name_of, pages_here, uses_spark
from tests.documents.run_pages import like_a_user, run_page

__all__ = ["like_a_user"]


@pytest.fixture
def users_session(spark: Any, catalog: None) -> Iterator[None]:
    """Let the session have the settings of the page, and afterwards those of all tests again."""
    before = spark.conf.getAll
    yield
    after = spark.conf.getAll
    for name in {*before, *after}:
        if before.get(name) == after.get(name) or not spark.conf.isModifiable(name):
            continue
        if name in before:
            spark.conf.set(name, before[name])
        else:
            spark.conf.unset(name)


@pytest.mark.broken_tables
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("users_session")
@pytest.mark.parametrize("page", [page for page in pages_here() if uses_spark(page)], ids=name_of)
def test_a_page_runs_and_gives_what_it_says(page: Path, like_a_user: Path) -> None:
    run_page(page, like_a_user)
