"""A proxy that adds the latency of a remote server to a server on this machine.

Bytes in each direction arrive half a round trip later. A new connection costs one more round trip
for its handshake. Bandwidth is not limited, and requests on several connections are delayed in
parallel, as on a real network.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

_BLOCK_BYTES = 1 << 18


@contextlib.contextmanager
def delayed(endpoint: str, round_trip: float) -> Iterator[str]:
    """Run a proxy to `endpoint` in a thread; its own endpoint, on 127.0.0.1, while the block runs.

    Use it as `endpoint_url`: an S3 client signs the host it calls, and most servers accept that.

    Args:
        endpoint: http://host:port.
        round_trip: seconds.
    """
    target = urlsplit(endpoint)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="delay")
    thread.start()
    starting = _listen(target.hostname or "127.0.0.1", target.port or 80, round_trip, 0)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(host: str, port: int, round_trip: float, at: int) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A connection that ends in the middle is the client's to complain of.
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            await asyncio.sleep(round_trip)
            there, back = await asyncio.open_connection(host, port)
            with contextlib.closing(back):
                out = asyncio.ensure_future(_carry(reader, back, round_trip / 2))
                home = asyncio.ensure_future(_carry(there, writer, round_trip / 2))
                await asyncio.wait((out, home))

    return await asyncio.start_server(serve, "127.0.0.1", at)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one_way: float
) -> None:
    """Hand on what comes, in order, each block `one_way` seconds after it came."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, block = await under_way.get()
            wait = due - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            if not block:
                writer.close()
                return
            writer.write(block)
            await writer.drain()

    delivery = asyncio.ensure_future(deliver())
    block = b"x"
    while block:
        try:
            block = await reader.read(_BLOCK_BYTES)
        except OSError:
            block = b""
        under_way.put_nowait((loop.time() + one_way, block))
    with contextlib.suppress(OSError):
        await delivery


async def _stop(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _serve_for_ever(endpoint: str, round_trip: float, port: int) -> None:
    target = urlsplit(endpoint)
    server = await _listen(target.hostname or "127.0.0.1", target.port or 80, round_trip, port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Print the proxy's endpoint and run until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", help="http://host:port of the server")
    parser.add_argument("--ms", type=float, default=20, help="round trip, milliseconds")
    parser.add_argument("--port", type=int, default=0, help="of the proxy; any free one")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_for_ever(given.endpoint, given.ms / 1000, given.port))


if __name__ == "__main__":
    main()
