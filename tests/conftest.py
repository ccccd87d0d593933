"""Fixtures for all tests."""

import pytest

# Its assertions are the ones that fail after a test; they have to say what differs.
pytest.register_assert_rewrite("tests.oracle")

from tests.oracle import every_table_agrees, pytest_configure  # noqa: E402
from tests.s3server import s3_server, s3_uri  # noqa: E402

__all__ = ["every_table_agrees", "pytest_configure", "s3_server", "s3_uri"]
