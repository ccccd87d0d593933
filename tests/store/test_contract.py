"""The store contract on every store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tablefmt.store import local_store as local_module
from tablefmt.store.location import open_store
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.testing.contract import StoreContract
from tests.s3server import S3Server


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return local_module.LocalStore(tmp_path / "not" / "there yet")


class TestLocalStoreWithTemporaryNames(StoreContract):
    """The way taken where the file system knows no files without a name."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = local_module.LocalStore(tmp_path)
        store._named = True
        return store


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(f"contract/{uuid.uuid4().hex}")


class TestS3Store(StoreContract):
    # The server answers one put at a time, so more of them meet no other order of events.
    raced_keys = 10

    @pytest.fixture
    def store(self, s3_uri: str, s3_server: S3Server) -> Store:
        return open_store(s3_uri, s3_server.options)
