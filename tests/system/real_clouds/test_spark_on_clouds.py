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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tablefmt.spark.backends.native.s3a import MAVEN, MAVEN_VARIABLE, cache_folder
from tests.system.real_clouds.emulators import Emulator, emulator

pytestmark = pytest.mark.soak
JOB = Path(__file__).with_name("spark_job.py")


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


def connector() -> Path:
    """Return the jar of Google's connector, from Maven Central, kept between runs."""
    version = "hadoop3-2.2.28"
    name = f"gcs-connector-{version}-shaded.jar"
    jar = cache_folder().parent / "connectors" / name
    if not jar.exists():
        base = os.environ.get(MAVEN_VARIABLE, MAVEN).rstrip("/")
        jar.parent.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        group = "com/google/cloud/bigdataoss/gcs-connector"
        urllib.request.urlretrieve(f"{base}/{group}/{version}/{name}", part)
        part.rename(jar)
    return jar


@pytest.mark.parametrize(
    ("cloud", "plane"),
    [("gcs", "arrow"), ("gcs", "native"), ("azure", "arrow")],
    indirect=["cloud"],
)
def test_spark_on_a_cloud(cloud: Emulator, tokens: str, tmp_path: Path, plane: str) -> None:
    """Credentials that only the driver has reach the workers, and no plan, log or file of Spark."""
    options = dict(cloud.options)
    if cloud.name == "gcs":
        path = tmp_path / "account.json"
        path.write_text(service_account(tokens))
        options["google_service_account"] = str(path)
        secret = json.loads(path.read_text())["private_key"].splitlines()[3]
    else:
        secret = options["azure_storage_account_key"]
    jars = [connector()] if plane == "native" else []
    given = {
        "uri": cloud.new_root(),
        "options": options,
        "plane": plane,
        "jars": [str(jar) for jar in jars],
        "secret": secret,
        "work": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(JOB), json.dumps(given)],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    at = done.stderr.find("Traceback")
    assert done.returncode == 0, done.stderr[at : at + 6000]
    assert "passed" in done.stdout
    assert secret not in done.stdout + done.stderr
