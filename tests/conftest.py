"""Fixtures for all tests, the order in which they run, and the seeds of random ones."""

from __future__ import annotations

import gc
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from hypothesis import settings

# Its assertions are the ones that fail after a test; they have to say what differs.
pytest.register_assert_rewrite("tests.oracle")

from tests import jvms  # noqa: E402
from tests.oracle import every_table_agrees, no_objects_are_left_in_memory  # noqa: E402
from tests.s3server import s3_server, s3_uri  # noqa: E402
from tests.scheduling import (  # noqa: E402
    ADDRESS,
    OneSession,
    add_to_the_soak,
    few,
    leave_to_the_soak,
    path_of,
    rank,
)

__all__ = ["every_table_agrees", "no_objects_are_left_in_memory", "s3_server", "s3_uri"]

# A value that is set already stays.
os.environ.setdefault("SPARK_SUBMIT_OPTS", jvms.options())

MEMORY_DISK = Path("/dev/shm")
FREE_BYTES = 4 << 30
OF_THE_DISK = ("tests/store/", "tests/system/faults/", "tests/system/processes/")
"""Tests of what a disk does are on the one that temporary files are on anyhow."""

# The same examples in every run, but for the soak, which says how to have its own again.
settings.register_profile("fixed", max_examples=few(100), deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported: settings are read there."""
    config.addinivalue_line("markers", "broken_tables: damages tables on purpose; no oracle after")
    settings.load_profile("random" if config.option.markexpr == "soak" else "fixed")
    # Tables wait for the disk at every commit; what they hold is the same in memory.
    if os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort long tests first, and keep the order within a file.

    All processes must agree on the order.
    """
    for item in items:
        if ADDRESS in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: an address differs by process")
    if config.option.markexpr == "soak":
        add_to_the_soak(items)
    leave_to_the_soak(items)
    items.sort(key=lambda item: rank(path_of(item.nodeid)))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives to the end: all tests and modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def disk() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder).resolve()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path, disk: Path) -> Path:
    """Return the test's own folder: in memory if that has space, unless the test needs the disk."""
    on_disk = request.node.nodeid.startswith(OF_THE_DISK)
    return Path(mkdtemp(dir=disk)) if on_disk else tmp_path


@pytest.fixture
def first_seed() -> int:
    """Return and print the first seed of a soak: TABLEFMT_TEST_SEED, or a random one."""
    seed = int(os.environ.get("TABLEFMT_TEST_SEED") or random.SystemRandom().randrange(1 << 40))
    print(f"TABLEFMT_TEST_SEED={seed}")
    return seed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession | None:
    """Return the scheduler of `--dist loadfile`."""
    if config.option.dist != "loadfile":
        return None
    config.option.loadscopereorder = False
    return OneSession(config, log)
