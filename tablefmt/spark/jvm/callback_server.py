"""The server through which the JVM calls Python: only the session's own JVM gets an answer.

Where threads are pinned, its default, PySpark starts py4j's server without a token. Any local user
could call the objects that it serves, and run verbs on tables as the session's user. Here each
connection has to send a token first. Only the JVM of the session knows it.
"""

from __future__ import annotations

import secrets
import threading

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.runtime.frames import JavaObject

_IDS_PER_POOL = 1 << 32
_starting = threading.Lock()


def ensure_started(gateway: JavaObject) -> None:
    """Start the server of a py4j gateway with a token, or give one to the server that runs.

    Args:
        gateway: a JavaGateway or, with pinned threads, a ClientServer.

    Raises:
        UnsupportedFeatureError: this py4j has no server with a token. Nothing is served then.
    """
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import ensure_callback_server_started

    with _starting:
        parameters = gateway.callback_server_parameters
        if parameters.auth_token is not None:
            # Without pinned threads py4j has given both sides a token itself.
            ensure_callback_server_started(gateway)
            return
        token = secrets.token_hex(32)
        # The parameters are those of the running server too: it asks for the token from now on.
        parameters.auth_token = token
        try:
            _close_off(gateway)
            _start(gateway)
            _tell_jvm(gateway, token)
        except (AttributeError, Py4JError, TypeError) as error:
            parameters.auth_token = None
            raise UnsupportedFeatureError(
                f"py4j cannot ask the JVM for a token before it answers calls ({error}); PySpark "
                "4.1 to 4.3 with the py4j that it brings is needed",
                ["spark:callback-token"],
            ) from None


def _close_off(gateway: JavaObject) -> None:
    """Keep objects of ours from connections that were there before the token.

    One of them may run a callback of the user's right now, so they stay open.
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
        # An object gets an id that the first pool will not give to another one.
        copy.next_id = pool.next_id + _IDS_PER_POOL
    return copy


def _start(gateway: JavaObject) -> None:
    """Start the server as PySpark does, on a port of the system's choice."""
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


def _tell_jvm(gateway: JavaObject, token: str) -> None:
    """Have the JVM call this server with the token.

    `resetCallbackClient`, which PySpark uses, makes a client without one.
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
