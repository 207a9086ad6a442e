"""Our client with servers of other libraries over HTTP, in each supported era: the same checks as over stdio.

There is one process per library for all tests. The reference server `everything` represents the TypeScript SDK 1.x.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import walks
from interop.known_servers import HTTP_COMMANDS, sse_command
from interop.listening import Listener
from interop.walks import HANDSHAKE, STATELESS, Row
from jackstay import Client, connect, http
from jackstay.types import CreateMessageResult, ElicitResult, TextContent

DOCUMENT = "demo://resource/static/document/features.md"

# Differences from the rows for stdio are caused by the transport.
ROWS = (
    Row("sdk1", HANDSHAKE, 0),
    Row("sdk2", STATELESS, -32602, subscribes=True),
    Row("sdk2", HANDSHAKE, -32602, notifies_list_changes=False),
    Row("fastmcp3", HANDSHAKE, -32002, completes=False),
    Row("fastmcp4", STATELESS, -32602, completes=False, sends_requests=False, notifies_list_changes=False),
    Row("fastmcp4", HANDSHAKE, -32602, completes=False),
    Row("typescript2", STATELESS, -32602, subscribes=True, refuses_unknown_tools=True),
    Row(
        "typescript2", HANDSHAKE, -32602, sends_requests=False, notifies_list_changes=False, refuses_unknown_tools=True
    ),
)

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the URL of every server by name. They start concurrently and stop after the module."""
    logs = tmp_path_factory.mktemp("logs")
    servers = {name: Listener(command, logs / name) for name, command in HTTP_COMMANDS.items()}
    try:
        for server in servers.values():
            server.wait()
        yield {name: f"{server.url}/mcp" for name, server in servers.items()}
    finally:
        for server in servers.values():
            server.stop()


def client_of(row: Row, urls: dict[str, str]) -> Client:
    return connect(http(urls[row.name]), versions=row.versions)


@every_row
async def test_tools_resources_prompts_and_completion(row: Row, urls: dict[str, str]) -> None:
    await walks.use(client_of(row, urls), row)


@every_row
async def test_progress_log_messages_and_cancellation(row: Row, urls: dict[str, str]) -> None:
    await walks.receive_notifications(client_of(row, urls), row)


@every_row
async def test_requests_and_notifications_of_the_server(row: Row, urls: dict[str, str]) -> None:
    await walks.handle_requests(client_of(row, urls), row)


@pytest.mark.parametrize(("name", "revision"), [
    ("sdk1", "2025-11-25"), ("sdk2", "2026-07-28"), ("fastmcp3", "2025-11-25"), ("fastmcp4", "2026-07-28"),
    ("typescript2", "2026-07-28"), ("everything", "2025-11-25"),
])  # fmt: skip
async def test_connect_negotiates_the_newest_revision(name: str, revision: str, urls: dict[str, str]) -> None:
    async with connect(http(urls[name])) as client:
        assert client.protocol_version == revision
        assert await client.tools.list()


async def test_reference_server_on_the_typescript_sdk_1(
    urls: dict[str, str],
) -> None:
    client = connect(http(urls["everything"]))
    listed, updates = asyncio.Event(), asyncio.Queue[str]()
    client.sampling.handle(
        lambda params: CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")
    )
    client.elicitation.handle(lambda params: ElicitResult(action="accept", content={"name": "Ada", "check": True}))
    client.roots.set(["file:///harbour"])
    client.on_notification(lambda message: listed.set() if message.method.endswith("tools/list_changed") else None)
    async with client:
        assert (await client.tools.call("get-sum", {"a": 19, "b": 23})).text.endswith("42.")
        # The server registers tools that need these capabilities after the handshake, and notifies on the GET stream.
        while "get-roots-list" not in [tool.name for tool in await client.tools.list()]:
            await listed.wait()
            listed.clear()
        sampled = await client.tools.call("trigger-sampling-request", {"prompt": "Ready?", "maxTokens": 20})
        assert '"aye"' in sampled.text
        assert "Ada" in (await client.tools.call("trigger-elicitation-request")).text
        assert "file:///harbour" in (await client.tools.call("get-roots-list")).text
        await client.resources.subscribe(DOCUMENT, updates.put_nowait)
        await client.tools.call("toggle-subscriber-updates")
        assert await updates.get() == DOCUMENT
        await walks.cancel_long_call(client)


async def test_connect_falls_back_to_http_sse(tmp_path: Path) -> None:
    """2025-11-25 basic/transports, "Backwards Compatibility": POST is rejected, so the client tries GET."""
    server = Listener(sse_command, tmp_path / "server.log")
    try:
        server.wait()
        client = connect(http(f"{server.url}/sse"))
        client.roots.set(["file:///harbour"])
        async with client:
            assert (await client.tools.call("get-sum", {"a": 19, "b": 23})).text.endswith("42.")
            await walks.cancel_long_call(client)
    finally:
        server.stop()
