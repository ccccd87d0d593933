"""Spark on emulators of Google and Azure: through Arrow, and with Hadoop's connectors.

Each case starts a JVM of its own, because the connectors' jars are given when Spark starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import generate_container_sas
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tablefmt.spark.backends.native.s3a import (
    MAVEN,
    MAVEN_VARIABLE,
    bundled_hadoop,
    cache_folder,
)
from tests.places import ROOT
from tests.spark.cluster.standalone import standalone
from tests.system.real_clouds.emulators import Emulator, emulator

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
JOB = "tests.system.real_clouds.spark_job"


@pytest.fixture(scope="module")
def cloud(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    with emulator(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def tokens() -> Iterator[str]:
    """A server that gives tokens to a service account."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"access_token": "ticket", "expires_in": 3600, "token_type": "Bearer"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def service_account(tokens: str) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    pem = key.private_bytes(*form, serialization.NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "id-of-the-key",
        "client_email": "robot@p.iam.gserviceaccount.com",
        "private_key": pem,
        "token_uri": tokens,
    }
    return json.dumps(account)


def connector(cloud: str) -> Path:
    """Return the jar of a cloud's connector, from Maven Central, kept between runs."""
    group, artifact, version, kind = {
        "gcs": ("com/google/cloud/bigdataoss", "gcs-connector", "hadoop3-2.2.28", "-shaded"),
        "azure": ("org/apache/hadoop", "hadoop-azure", bundled_hadoop(), ""),
    }[cloud]
    name = f"{artifact}-{version}{kind}.jar"
    jar = cache_folder().parent / "connectors" / name
    if not jar.exists():
        base = os.environ.get(MAVEN_VARIABLE, MAVEN).rstrip("/")
        jar.parent.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        urllib.request.urlretrieve(f"{base}/{group}/{artifact}/{version}/{name}", part)
        part.rename(jar)
    return jar


def with_signature(options: dict[str, Any], container: str) -> dict[str, Any]:
    """Return options with a signature for one container in place of the account's key."""
    options = dict(options)
    token = generate_container_sas(
        options["azure_storage_account_name"],
        container,
        options.pop("azure_storage_account_key"),
        permission="racwdl",
        expiry=datetime.now(timezone.utc) + timedelta(hours=1),
    )
    return {**options, "azure_storage_sas_token": token}


@pytest.mark.parametrize(
    ("cloud", "plane", "login"),
    [
        ("gcs", "arrow", "account"),
        ("gcs", "native", "account"),
        ("azure", "arrow", "key"),
        ("azure", "native", "key"),
        ("azure", "native", "signature"),
    ],
    indirect=["cloud"],
)
def test_spark_on_a_cloud(
    cloud: Emulator, tokens: str, tmp_path: Path, plane: str, login: str
) -> None:
    """Tables are as a model says, though tasks fail. Credentials that only the driver has reach the
    workers, and no plan, log or file of Spark.
    """
    options, uri = dict(cloud.options), cloud.new_root()
    if login == "account":
        path = tmp_path / "account.json"
        path.write_text(service_account(tokens))
        options["google_service_account"] = str(path)
        secret = json.loads(path.read_text())["private_key"].splitlines()[3]
    elif login == "signature":
        options = with_signature(options, uri.split("/")[2])
        secret = options["azure_storage_sas_token"].partition("sig=")[2]
    else:
        secret = options["azure_storage_account_key"]
    work = tmp_path / "work"
    work.mkdir()
    jars = [connector(cloud.name)] if plane == "native" else []
    with standalone(tmp_path / "cluster", memory="1g") as cluster:
        given = {
            "master": cluster.url,
            "uri": uri,
            "options": options,
            "plane": plane,
            "jars": [str(jar) for jar in jars],
            "secret": secret,
            "work": str(work),
            "path": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", JOB, json.dumps(given)],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    at = done.stderr.rfind("Traceback")
    assert done.returncode == 0, done.stdout + done.stderr[at : at + 6000]
    print(done.stdout)
    assert "passed" in done.stdout
    printed = [path.read_text(errors="replace") for path in (tmp_path / "cluster").rglob("std*")]
    assert len(printed) > 2
    assert [text for text in (done.stdout, done.stderr, *printed) if secret in text] == []
    # Each root of a table, and its folder of data files, may have a mark. On Google, so may the
    # folder of a partition whose only file was that of a failed attempt, for a moment.
    marks = [name for name in cloud.folder_marks(uri) if name.rstrip("/").count("/") > 1]
    assert [name for name in marks if cloud.name == "azure" or "/__p=" not in name] == []
