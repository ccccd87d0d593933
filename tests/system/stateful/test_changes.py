"""DELETE, UPDATE, MERGE and changes of schema in random order, without Spark. DEL, SCH, DAT."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.system.stateful.changing import Changing

TestChanging = pytest.mark.slow(Changing.TestCase)
TestChanging.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)


@pytest.mark.soak
class TestChangingForLong(Changing.TestCase):  # type: ignore[valid-type]
    settings = settings(max_examples=1000, stateful_step_count=30, deadline=None)
