"""A Spark Connect server, a process of its own, for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tablefmt.spark.entry.python_source import register_source
from tests import jvms
from tests.places import ROOT
from tests.scheduling import CONNECT

MASTER = os.environ.get("TABLEFMT_TEST_MASTER", "local-cluster[1,2,1024]")
ZONE = "America/New_York"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(CONNECT):
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))


@pytest.fixture(scope="session")
def connect_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file with the output of the server."""
    return tmp_path_factory.mktemp("connect") / "server.log"


@pytest.fixture(scope="session")
def connect_address(connect_log: Path, forked_python: Path) -> Iterator[str]:
    import pyspark

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    confs = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.log.level": "ERROR",
        "spark.executor.syncLogLevel.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "2",
        "spark.sql.warehouse.dir": str(connect_log.parent / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.executor.memory": "1g",
        "spark.executor.extraJavaOptions": jvms.options(),
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", MASTER, "--name", "connect"]
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["spark-internal"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(forked_python),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)
    with connect_log.open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd=connect_log.parent,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait_for(server, port, connect_log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        # The launcher is a shell; its group holds the JVM and its Python workers.
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(1200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the Connect server did not start:\n{log.read_text()[-4000:]}")


def new_session(address: str) -> Any:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(address).create()
    session.conf.set("spark.sql.session.timeZone", ZONE)
    return session


@pytest.fixture(scope="session")
def connect(connect_address: str) -> Iterator[Any]:
    """A registered Connect session."""
    session = new_session(connect_address)
    register_source(session)
    work = jvms.executor_logs(session.conf.get("spark.app.id"))
    yield session
    session.stop()
    shutil.rmtree(work, ignore_errors=True)


@pytest.fixture
def printed(connect: Any, connect_log: Path) -> Callable[[], str]:
    """Return what the server and its executors have printed."""
    work = jvms.executor_logs(connect.conf.get("spark.app.id"))

    def read() -> str:
        found = [connect_log, *work.glob("*/std*")]
        assert len(found) > 1 or not MASTER.startswith("local-cluster")
        return "".join(path.read_text(errors="replace") for path in found)

    return read
