"""Fixtures for all tests."""

from tests.oracle import every_table_agrees, pytest_configure
from tests.s3server import s3_server, s3_uri

__all__ = ["every_table_agrees", "pytest_configure", "s3_server", "s3_uri"]
