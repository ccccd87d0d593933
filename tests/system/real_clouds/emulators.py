"""Emulators of Google Cloud Storage and Azure: fake-gcs-server and Azurite.

They are taken from the PATH or from the Python environment's folder `emulators`, and installed
there if they are in neither.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from azure.storage.blob import ContainerClient

from tablefmt.store.azure_store import _EMULATOR_KEY

_FOLDER = Path(sys.prefix) / "emulators"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Emulator:
    """A running emulator.

    Attributes:
        name: gcs or azure.
        options: storage options that lead there.
        new_root: makes a bucket, and returns the root of a table in it.
        folder_marks: returns the empty objects in the bucket of a table that stand for folders.
    """

    name: str
    options: dict[str, Any]
    new_root: Callable[[], str]
    folder_marks: Callable[[str], list[str]]


def _fake_gcs_server() -> list[str]:
    binary = shutil.which("fake-gcs-server") or str(_FOLDER / "fake-gcs-server")
    if not Path(binary).exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        _install(
            ["go", "install", "github.com/fsouza/fake-gcs-server@v1.56.1"],
            {"GOBIN": str(_FOLDER), "CGO_ENABLED": "0"},
        )
    return [binary, "-scheme", "http", "-host", "127.0.0.1", "-backend", "memory", "-port"]


def _azurite() -> list[str]:
    binary = shutil.which("azurite-blob") or str(_FOLDER / "node_modules/.bin/azurite-blob")
    if not Path(binary).exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        _install(["npm", "install", "--prefix", str(_FOLDER), "azurite@3.37.0"], {})
    quiet = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    return [binary, "--blobHost", "127.0.0.1", *quiet, "--blobPort"]


def _install(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env={**os.environ, **environment}, check=True, timeout=1200)


@contextlib.contextmanager
def emulator(name: str) -> Iterator[Emulator]:
    """Start an emulator at a free port, and end it."""
    command = {"gcs": _fake_gcs_server, "azure": _azurite}[name]()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = subprocess.Popen(
        [*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(process, port)
        yield {"gcs": _google, "azure": _azure}[name](f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, "the emulator ended by itself"
        time.sleep(0.2)
    raise AssertionError("the emulator does not answer")


def _google(endpoint: str) -> Emulator:
    def new_root() -> str:
        bucket = f"bucket-{next(_numbers)}-{os.getpid()}"
        made = requests.post(
            f"{endpoint}/storage/v1/b", params={"project": "p"}, json={"name": bucket}, timeout=10
        )
        made.raise_for_status()
        return f"gs://{bucket}/a table"

    def folder_marks(uri: str) -> list[str]:
        listed = requests.get(f"{endpoint}/storage/v1/b/{uri.split('/')[2]}/o", timeout=60).json()
        assert "nextPageToken" not in listed
        names = [one["name"] for one in listed.get("items", [])]
        return [name for name in names if name.endswith("/")]

    return Emulator("gcs", {"endpoint": endpoint}, new_root, folder_marks)


def _azure(endpoint: str) -> Emulator:
    account = f"{endpoint}/devstoreaccount1"
    key = {"account_name": "devstoreaccount1", "account_key": _EMULATOR_KEY}

    def new_root() -> str:
        container = f"container-{next(_numbers)}-{os.getpid()}"
        ContainerClient(account, container, credential=key).create_container()
        return f"az://{container}/a table"

    def folder_marks(uri: str) -> list[str]:
        client = ContainerClient(account, uri.split("/")[2], credential=key)
        listed = client.list_blobs(include=["metadata"])
        return [one.name for one in listed if "hdi_isfolder" in (one.metadata or {})]

    options = {
        "azure_storage_account_name": "devstoreaccount1",
        "azure_storage_account_key": _EMULATOR_KEY,
        "azure_storage_endpoint": account,
    }
    return Emulator("azure", options, new_root, folder_marks)
