"""The driver's callback server answers only its JVM, among all programs that can connect."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

import tablefmt
from tablefmt.spark.jvm import callbacks

REFUSED = b"!xn\n"
"""py4j's answer to a wrong token. It answers nothing at all to a call without one."""


def ask(port: int, *lines: str) -> bytes:
    """Send lines as another process would; return the answer, empty where the server hung up."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall("".join(f"{line}\n" for line in lines).encode())
        try:
            return connection.recv(1 << 10)
        except ConnectionResetError:
            return b""


def test_strangers_neither_call_nor_change_what_the_jvm_may_call(
    spark: Any, catalog: None, uri: str
) -> None:
    gateway = spark.sparkContext._gateway
    port = gateway._callback_server.get_listening_port()
    served = list(gateway.gateway_property.pool.dict)
    assert served
    for number in served:
        for method in ("apply", "__setattr__", "__init__"):
            assert ask(port, "c", number, method, "stext", "e") == b""
        assert ask(port, "g", number, "e") == b""
    assert ask(port, "A", "0" * 64, "e") == REFUSED
    assert list(gateway.gateway_property.pool.dict)[: len(served)] == served

    # The session works on: each of these calls Python from the JVM.
    spark.range(4).write.format("tablefmt").save(uri)
    spark.sql(f"DELETE FROM tablefmt.`{uri}` WHERE id = 2")
    assert tablefmt.open(uri).to_arrow()["id"].to_pylist() == [0, 1, 3]


def test_connections_from_before_the_token_see_no_object_of_ours() -> None:
    from py4j.java_gateway import PythonProxyPool

    pool = PythonProxyPool()
    theirs = pool.put("theirs")
    connection = SimpleNamespace(pool=pool)
    lock = pool.lock
    server = SimpleNamespace(lock=lock, connections={"only": connection}.values())
    callbacks._close_off(SimpleNamespace(_callback_server=server))
    ours = pool.put("ours")
    assert connection.pool[theirs] == "theirs"
    assert ours not in connection.pool
    # Only the old connection has the objects it answers with.
    assert connection.pool.put("answer") not in pool


def test_a_py4j_without_a_token_leaves_pyspark_as_it_was() -> None:
    parameters = SimpleNamespace(auth_token=None)
    gateway = SimpleNamespace(callback_server_parameters=parameters)
    with pytest.raises(tablefmt.errors.UnsupportedFeatureError, match="token"):
        callbacks.ensure_started(gateway)
    assert parameters.auth_token is None
