"""Questions of `Table.why`: each one chooses its report, and others are refused."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
from tablefmt.errors import InvalidArgumentError
from tablefmt.inspection.pruning_reasons import PruningReport
from tablefmt.inspection.removal_reasons import RemovalReport
from tablefmt.inspection.version_reasons import VersionReport
from tests.tables import memory


@pytest.fixture(scope="module")
def table() -> tablefmt.Table:
    table = tablefmt.create(memory().uri, "id BIGINT")
    table.append({"id": [1]})
    return table


def test_a_question_has_its_report(table: tablefmt.Table) -> None:
    asked: dict[str, Any]
    for asked, kind in (
        ({"where": "id > 1"}, PruningReport),
        ({"where": "id > 1", "file": 1, "version": 1}, PruningReport),
        ({"vacuum": True}, RemovalReport),
        ({"vacuum": True, "file": 1}, RemovalReport),
        ({"file": 1}, RemovalReport),
        ({"version": 0}, VersionReport),
    ):
        assert isinstance(table.why(**asked), kind)


def test_a_question_is_one_question(table: tablefmt.Table) -> None:
    for asked in (
        {},
        {"version": 1, "vacuum": True},
        {"where": "id > 1", "vacuum": True},
        {"file": "x", "version": 1},
        {"file": 1.5},
        {"vacuum": 1},
    ):
        with pytest.raises(InvalidArgumentError):
            table.why(**asked)
