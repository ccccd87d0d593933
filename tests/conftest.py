"""Fixtures for all tests."""

from pathlib import Path

import pytest

# Its assertions are the ones that fail after a test; they have to say what differs.
pytest.register_assert_rewrite("tests.oracle")

from tests.oracle import every_table_agrees, pytest_configure  # noqa: E402
from tests.s3server import s3_server, s3_uri  # noqa: E402

__all__ = ["every_table_agrees", "pytest_configure", "s3_server", "s3_uri"]

TESTS = Path(__file__).parent
SHARED = {"spark": "spark", "spark_s3": "spark", "spark_connect": "connect"}
"""Folders whose files share a session or a server."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n 2 --dist loadgroup`, what shares something expensive stays in one process."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        item.add_marker(pytest.mark.xdist_group(SHARED.get(folder, item.path.stem)))
