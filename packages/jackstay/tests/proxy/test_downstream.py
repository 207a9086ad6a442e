"""The connection to a client over stdio: `initialize` waits for the upstream server."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from jackstay.errors import McpError
from jackstay.proxy._downstream import DownstreamConnection
from jackstay.server import Server
from jackstay.testing import on_fake_clock
from jackstay.transport import memory_pair

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class Gated(Server):
    """A server whose `initialize` waits for `gate`; its configuration changes when the gate opens."""

    def __init__(self) -> None:
        super().__init__("before")
        self.gate = asyncio.Event()
        self.calls = 0
        self.after = Server("after")

    async def _before_handshake(self) -> None:
        self.calls += 1
        await self.gate.wait()

    def _current_config(self) -> Any:
        return (self.after if self.gate.is_set() else super())._current_config()

    def _make_connection(self, config: Any) -> DownstreamConnection:
        return DownstreamConnection(config, self)


class Client:
    """A client that sends and receives frames."""

    def __init__(self) -> None:
        self.pair = memory_pair("client")
        self.received: list[dict[str, Any]] = []
        self.number = 0

    async def open(self) -> None:
        self.transport = await self.pair.client.open(self, 1 << 20, 1.0)

    def send(self, message: dict[str, Any]) -> None:
        self.number += 1
        assert self.transport.send(json.dumps(message).encode(), self.number)

    def frames_arrived(self) -> None:
        while isinstance(frame := self.transport.next_frame(), bytes):
            self.received.append(json.loads(frame))

    def wrote(self, through: int) -> None: ...

    def room_made(self) -> None: ...

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None: ...


async def wait_until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def opened() -> tuple[Gated, Client, "asyncio.Future[None]"]:
    server, client = Gated(), Client()
    await client.open()
    serving = asyncio.ensure_future(server.serve(client.pair.server))
    return server, client, serving


@on_fake_clock
async def test_initialize_waits_for_prepare_and_uses_the_new_config() -> None:
    server, client, serving = await opened()
    client.send(INITIALIZE)
    client.send(PING)
    await wait_until(lambda: server.calls)
    await asyncio.sleep(1)
    assert client.received == []
    server.gate.set()
    await wait_until(lambda: len(client.received) == 2)
    assert client.received[0]["result"]["serverInfo"]["name"] == "after"
    assert client.received[1] == {"jsonrpc": "2.0", "id": 2, "result": {}}
    client.send({**PING, "id": 3})
    await wait_until(lambda: len(client.received) == 3)
    assert server.calls == 1
    await client.transport.close()
    await serving


@on_fake_clock
async def test_other_first_messages_are_served_at_once() -> None:
    server, client, serving = await opened()
    client.send(PING)
    await wait_until(lambda: client.received)
    client.send(INITIALIZE)
    await wait_until(lambda: len(client.received) == 2)
    assert server.calls == 0
    assert client.received[1]["result"]["serverInfo"]["name"] == "before"
    await client.transport.close()
    await serving


@on_fake_clock
async def test_a_client_that_sends_nothing() -> None:
    server, client, serving = await opened()
    await asyncio.sleep(1)
    await client.transport.close()
    await serving
    assert server.calls == 0


@pytest.mark.parametrize("end", ["client", "drain", "stop"])
@on_fake_clock
async def test_shutdown_does_not_wait_for_prepare(end: str) -> None:
    server, client, serving = await opened()
    client.send(INITIALIZE)
    await wait_until(lambda: server.calls)
    if end == "client":
        await client.transport.close()
    elif end == "drain":
        server.drain()
    else:
        serving.cancel()
    started_at = asyncio.get_running_loop().time()
    await asyncio.wait((serving,))
    assert asyncio.get_running_loop().time() - started_at < 1.5
    server.gate.set()
    await asyncio.sleep(1)
