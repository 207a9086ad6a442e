"""An HTTP endpoint of Jackstay at scale, called without sockets: many sessions, many subscribers.

python scale_http.py sessions N          prints: CPU seconds to open one of N sessions; per call; KiB per session
python scale_http.py subscribers N       prints: CPU seconds per notified GET stream; per `subscriptions/listen`
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jackstay.server import Server

OLD, NEW = "2025-11-25", "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": NEW, "io.modelcontextprotocol/clientCapabilities": {}}
URI = "bench://resource"
# Operations of one measurement, at least.
OPERATIONS = 5_000

SERVER = Server("echo")
APP = SERVER.asgi(sessions=True, max_sessions=1_000_000, session_ttl=86_400.0)

Send = Callable[[dict[str, Any]], Awaitable[None]]


@SERVER.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@SERVER.resource(URI)
async def resource() -> str:
    """Return the resource."""
    return "text"


class Client:
    """A client that calls the ASGI app: with a session, or of the stateless era."""

    def __init__(self, version: str = OLD) -> None:
        self.version = version
        self.session = b""

    async def send(self, verb: str, message: dict[str, Any] | None, send: Send) -> None:
        """Send one request; the response is passed to `send`."""
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        headers = [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"mcp-protocol-version", self.version.encode()),
        ]
        if self.session:
            headers.append((b"mcp-session-id", self.session))
        if self.version == NEW and message is not None:
            headers.append((b"mcp-method", message["method"].encode()))
        parts = [{"type": "http.request", "body": body}]

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop()
            return await asyncio.get_running_loop().create_future()  # the client stays connected

        scope = {"type": "http", "method": verb, "path": "/mcp", "headers": headers, "client": ("127.0.0.1", 1)}
        await APP(scope, receive, send)

    async def post(self, method: str, params: dict[str, Any], id: int | None = 1) -> None:
        """Send a message and check that it succeeds. Keeps a new session id."""
        sent: list[dict[str, Any]] = []

        async def collect(part: dict[str, Any]) -> None:
            sent.append(part)

        message = {"method": method, "params": params} | ({} if id is None else {"id": id})
        await self.send("POST", message, collect)
        if sent[0]["status"] not in (200, 202) or b'"error"' in sent[1]["body"]:
            raise SystemExit(f"{method} failed: {sent}")
        self.session = dict(sent[0]["headers"]).get(b"mcp-session-id", self.session)

    async def open(self) -> "Client":
        """Open a session."""
        info = {"name": "bench", "version": "1"}
        await self.post("initialize", {"protocolVersion": OLD, "capabilities": {}, "clientInfo": info})
        await self.post("notifications/initialized", {}, None)
        return self

    async def call(self) -> None:
        """Call the tool."""
        await self.post("tools/call", {"name": "echo", "arguments": {"text": "hello"}})


def resident() -> float:
    """Return the resident memory in KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


async def sessions(number: int) -> None:
    """Open sessions, call a tool in each, and open more, which finds the oldest session in a used store."""
    warm = [await Client().open() for _ in range(200)]
    for client in warm:
        await client.call()
    before = resident()
    clients = [await Client().open() for _ in range(number)]
    memory = (resident() - before) / number
    for client in clients:
        await client.call()
    started = time.process_time()
    for index in range(OPERATIONS):
        await clients[index * 7919 % number].call()
    called = time.process_time()
    for _ in range(1_000):
        await Client().open()
    print((time.process_time() - called) / 1_000, (called - started) / OPERATIONS, memory)


async def subscribers(number: int, version: str) -> float:
    """Open subscribed streams, notify them, and return the CPU seconds per notification."""
    received = 0
    everyone = asyncio.Event()
    target = 0

    async def count(part: dict[str, Any]) -> None:
        nonlocal received
        received += part.get("body", b"").count(b"resources/updated")
        if received >= target:
            everyone.set()

    streams = []
    for _ in range(number):
        if version == OLD:
            client = await Client().open()
            await client.post("resources/subscribe", {"uri": URI})
            streams.append(asyncio.ensure_future(client.send("GET", None, count)))
        else:
            params = {"notifications": {"resourceSubscriptions": [URI]}, "_meta": META}
            message = {"method": "subscriptions/listen", "params": params, "id": 1}
            streams.append(asyncio.ensure_future(Client(NEW).send("POST", message, count)))
    await asyncio.sleep(0.1)
    rounds = max(3, OPERATIONS // number)
    started = 0.0
    for index in range(rounds + 1):
        if index == 1:  # with the first notification a stream creates its task and timer
            gc.collect()
            started = time.process_time()
        target += number
        everyone.clear()
        SERVER.notify_resource_updated(URI)
        await asyncio.wait_for(everyone.wait(), 60)
    took = (time.process_time() - started) / (rounds * number)
    for stream in streams:
        stream.cancel()
    await asyncio.wait(streams)
    return took


async def main(mode: str, number: int) -> None:
    if mode == "sessions":
        await sessions(number)
    else:
        listening = await subscribers(number, NEW)  # first: sessions stay open
        print(await subscribers(number, OLD), listening)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
