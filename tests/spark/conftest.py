"""One Spark session for all tests, on an executor in a process of its own.

Its time zone is not UTC and has summer time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.spark.backends.backend_choice import SETTING
from tablefmt.spark.backends.native.native_relation import Files, pruner
from tablefmt.spark.jvm.java_classes import problem
from tests import jvms, python_forks
from tests.places import ROOT
from tests.scheduling import SESSION
from tests.spark import jvm_names

# Its assertions are those of the tests that use it.
pytest.register_assert_rewrite("tests.spark.shapes")

MASTER = os.environ.get("TABLEFMT_TEST_MASTER", "local-cluster[1,2,1024]")
"""Executors in processes of their own have none of the classes that the driver's JVM compiles."""
ZONE = "America/New_York"
JVMS = frozenset({"spark", "connect_address"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SESSION):
            # Tests that start a JVM in another way have the mark in their source.
            if JVMS.intersection(getattr(item, "fixturenames", ())):
                item.add_marker("spark")
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning:pyspark.*"))


@pytest.fixture(scope="session")
def forked_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of Spark's workers: a program that costs no imports."""
    with python_forks.running(tmp_path_factory.mktemp("forks")) as program:
        yield program


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, forked_python: Path) -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = str(forked_python)
    jvm_names.remember()
    session = tablefmt.spark.session(
        "tests",
        master=MASTER,
        s3=True,
        **{
            "spark.driver.memory": "3g",
            # More for short-lived objects than jvms.py has for a JVM of seconds.
            "spark.driver.extraJavaOptions": "-Xmn1200m",
            "spark.executor.memory": "1g",
            "spark.executor.extraJavaOptions": jvms.options(),
            # Two clusters that start in one second would share a folder, and the first to end
            # would remove it.
            "spark.deploy.appIdPattern": f"app-%s-%04d-{os.getpid()}",
            # Python workers run functions of the tests.
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.session.timeZone": ZONE,
            "spark.sql.shuffle.partitions": "2",
            # Of tasks that fail, some fail once. The others fail for good, and Spark tries them 4
            # times.
            "spark.task.maxFailures": "2",
            # Botocore would wait for the metadata of a cloud's machine.
            "spark.executorEnv.AWS_EC2_METADATA_DISABLED": "true",
            "spark.sql.adaptive.enabled": "false",
            # For its user interface, which is off, Spark formats the plan of each query.
            "spark.sql.ui.explainMode": "simple",
            # Executors log a dozen lines for each task, unless they follow the level below.
            "spark.executor.syncLogLevel.enabled": "true",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    # Falling back would answer most tests too.
    assert problem(session) is None
    work = jvms.executor_logs(session.sparkContext.applicationId)
    yield session
    session.stop()
    shutil.rmtree(work, ignore_errors=True)


@pytest.fixture
def catalog(spark: Any) -> Iterator[None]:
    """A registered session, and afterwards no table or view in its catalog."""
    tablefmt.spark.register(spark)
    yield
    for table in spark.sql("SHOW TABLES").collect():
        kind = "VIEW" if table.isTemporary else "TABLE"
        spark.sql(f"DROP {kind} IF EXISTS `{table.tableName}`")


@pytest.fixture
def sessions(spark: Any) -> list[Any]:
    """Two, of one context."""
    both = [spark, spark.newSession()]
    for session in both:
        tablefmt.spark.register(session)
    return both


UseBackend = Callable[..., None]
"""`use_backend(name, *sessions)`; without sessions, the one of all tests."""


@pytest.fixture
def use_backend(spark: Any) -> Iterator[UseBackend]:
    """Says who reads and writes the files in a session, until the test ends."""
    told = []

    def use(name: str, *sessions: Any) -> None:
        for session in sessions or (spark,):
            session.conf.set(SETTING, name)
            told.append(session)

    yield use
    for session in told:
        session.conf.unset(SETTING)


@pytest.fixture(params=["native", "arrow"])
def backend(request: pytest.FixtureRequest, use_backend: UseBackend) -> str:
    """Each backend in turn, set for the session of all tests."""
    use_backend(request.param)
    return str(request.param)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table with %41 : and ünïcode")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The condition texts that the JVM asked about."""
    texts: list[str] = []

    def spying(files: Files) -> Callable[[str], Any]:
        inner = pruner(files)

        def prune(text: str) -> Any:
            texts.append(text)
            return inner(text)

        return prune

    monkeypatch.setattr("tablefmt.spark.backends.native.native_relation.pruner", spying)
    return texts
