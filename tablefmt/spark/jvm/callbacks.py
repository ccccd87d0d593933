"""JVM callbacks: the server for calls into Python, and checks of messages on both sides.

With `PYSPARK_PIN_THREAD`, its default, PySpark starts py4j's callback server without a token. Then
any local user could call the served objects, and run statements as the session's user. Here, each
connection must send a token first, which only the session's JVM knows.

`java/messages.schema.json` defines the messages. Java checks what it sends and receives, in
Messages.java. `entry.registration` does the same with this module.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.jvm.callback_guard import guard
from tablefmt.spark.pyspark_objects import JavaObject

_IDS_PER_POOL = 1 << 32
_starting = threading.Lock()


def ensure_started(gateway: JavaObject) -> None:
    """Start the callback server of a py4j gateway with a token, or add one to a running server.

    Args:
        gateway: a JavaGateway or, with `PYSPARK_PIN_THREAD`, a ClientServer.

    Raises:
        UnsupportedFeatureError: this py4j does not support a token. Then nothing is served.
    """
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import ensure_callback_server_started

    with _starting:
        parameters = gateway.callback_server_parameters
        if parameters.auth_token is not None:
            # Without PYSPARK_PIN_THREAD, py4j itself has given both sides a token.
            # PySpark states no types for it.
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            guard(gateway._callback_server)
            return
        token = secrets.token_hex(32)
        # The running server shares the parameters, so it requires the token from now on.
        parameters.auth_token = token
        try:
            _close_off(gateway)
            _start(gateway)
            guard(gateway._callback_server)
            _connect_jvm(gateway, token)
        except (AttributeError, Py4JError, TypeError) as error:
            parameters.auth_token = None
            raise UnsupportedFeatureError(
                f"py4j cannot require a token from the JVM ({error}); use PySpark 4.1 to 4.3 with "
                "the py4j that it bundles",
                ["spark:callback-token"],
            ) from None


def _close_off(gateway: JavaObject) -> None:
    """Hide our objects from connections that were opened before the token was set.

    The connections stay open, because one of them may be running a callback of the user.
    """
    server = gateway.__dict__.get("_callback_server")
    if server is None:
        return
    with server.lock:
        connections = list(server.connections)
    for connection in connections:
        connection.pool = _copy(connection.pool)


def _copy(pool: JavaObject) -> JavaObject:
    copy = type(pool)()
    with pool.lock:
        copy.dict = dict(pool.dict)
        # The new pool's ids must not overlap with ids that the old pool still assigns.
        copy.next_id = pool.next_id + _IDS_PER_POOL
    return copy


def _start(gateway: JavaObject) -> None:
    """Start the server as PySpark does, on a free port."""
    # getattr would ask the JVM for the name.
    if gateway.__dict__.get("_callback_server") is not None:
        return
    parameters = gateway.callback_server_parameters
    parameters.eager_load = True
    parameters.daemonize = True
    parameters.daemonize_connections = True
    parameters.port = 0
    gateway.start_callback_server(parameters)
    server = gateway._callback_server
    server.port = server.get_listening_port()
    gateway._python_proxy_port = server.port


def _connect_jvm(gateway: JavaObject, token: str) -> None:
    """Make the JVM call this server with the token.

    PySpark uses `resetCallbackClient`, which makes a client without a token.
    """
    from py4j.java_gateway import JavaObject as Reference

    jvm = gateway.jvm
    java = Reference("GATEWAY_SERVER", gateway._gateway_client).getGateway()
    before = java.getCallbackClient()
    server = before.getJavaServer()
    client = jvm.py4j.PythonClient(
        java,
        server.getCustomCommands(),
        gateway._python_proxy_port,
        before.getAddress(),
        jvm.py4j.CallbackClient.DEFAULT_MIN_CONNECTION_TIME,
        jvm.java.util.concurrent.TimeUnit.SECONDS,
        jvm.javax.net.SocketFactory.getDefault(),
        server,
        before.isMemoryManagementEnabled(),
        before.getReadTimeout(),
        token,
    )
    field = java.getClass().getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java, client)


@lru_cache(maxsize=1)
def schema_text() -> str:
    """Return the message schema as JSON text."""
    return (resources.files("tablefmt.spark.jvm") / "java" / "messages.schema.json").read_text(
        "utf-8"
    )


@lru_cache(maxsize=1)
def message_schema() -> Mapping[str, Any]:
    """Return the message schema."""
    loaded: Mapping[str, Any] = json.loads(schema_text())
    return loaded


def check_request(verb: str, arguments: Sequence[Any]) -> None:
    """Check that the schema has this call from Java.

    Raises:
        UnsupportedFeatureError: it has not, because the Java classes are of another release.
    """
    known = message_schema()["verbs"].get(verb)
    if known is None:
        raise _disagreement(verb, "there is no such verb")
    kinds = known["arguments"]
    for at, kind in enumerate(kinds):
        given = arguments[at] if at < len(arguments) else None
        problem = _of_kind(given, kind, f"argument {at}")
        if problem is not None:
            raise _disagreement(verb, problem)
    if len(arguments) > len(kinds):
        raise _disagreement(verb, f"it has {len(arguments)} arguments, expected {len(kinds)}")


def check_answer(verb: str, answer: Any) -> None:
    """Check that an answer has the type in the schema. Raises as `check_request`."""
    problem = _of_kind(answer, message_schema()["verbs"][verb]["answer"], "the answer")
    if problem is not None:
        raise _disagreement(verb, problem)


def problem_of(value: Any, shape: str) -> str | None:
    """Return what is wrong with a value of a shape in `$defs`. None if nothing is. Pure."""
    return _wrong(value, message_schema()["$defs"][shape.removeprefix("#")], "it")


def _disagreement(verb: str, problem: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"tablefmt's Java classes and its Python modules disagree about {verb!r}: {problem}; "
        "restart Python, so that both are of the same release",
        ["spark:messages"],
    )


_PLAIN: Mapping[str, type] = {"text": str, "boolean": bool, "long": int}
"""Kinds that py4j passes as Python values. Others are objects of the JVM."""


def _of_kind(given: Any, kind: str, place: str) -> str | None:
    if given is None:
        return None if kind.endswith("?") or kind == "any" else f"{place} is missing"
    wanted = kind.removesuffix("?")
    if wanted.startswith("#"):
        return _wrong(json.loads(given), message_schema()["$defs"][wanted[1:]], place)
    plain = _PLAIN.get(wanted)
    if plain is not None and not isinstance(given, plain):
        return f"{place} is a {type(given).__name__}, not {wanted}"
    return None


def _wrong(value: Any, shape: Mapping[str, Any], place: str) -> str | None:
    if "$ref" in shape:
        return _wrong(value, message_schema()["$defs"][shape["$ref"].rpartition("/")[2]], place)
    if "enum" in shape:
        return None if value in shape["enum"] else f"{place} is {value!r:.100}"
    types = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    if not any(_is(value, kind) for kind in types):
        return f"{place} is {value!r:.100}, not {' or '.join(types)}"
    if isinstance(value, dict):
        return _wrong_fields(value, shape, place)
    if isinstance(value, list):
        first, others = shape.get("prefixItems", []), shape.get("items")
        for at, item in enumerate(value):
            wanted = first[at] if at < len(first) else others
            problem = None if wanted is None else _wrong(item, wanted, f"{place}[{at}]")
            if problem is not None:
                return problem
    return None


def _wrong_fields(value: Mapping[str, Any], shape: Mapping[str, Any], place: str) -> str | None:
    for name in shape.get("required", ()):
        if name not in value:
            return f"{place} lacks {name}"
    others = shape.get("additionalProperties", True)
    for name, inner in value.items():
        wanted = shape.get("properties", {}).get(name, others)
        if wanted is False:
            return f"{place} has {name}"
        problem = None if wanted is True else _wrong(inner, wanted, f"{place}.{name}")
        if problem is not None:
            return problem
    return None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    types = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
    return kind in types and isinstance(value, types[kind])
