"""Our client with servers over HTTP on other libraries, in each supported era: the same walks as over stdio.

One process a library, for all tests here. The reference server `everything` stands for the TypeScript SDK 1.x.
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

# What differs from the rows over stdio is the transport's doing.
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
    """Every server, by its name. They start side by side and end with the module."""
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
async def test_tools_resources_prompts_and_completion_give_what_is_known(row: Row, urls: dict[str, str]) -> None:
    await walks.use(client_of(row, urls), row)


@every_row
async def test_progress_and_log_messages_arrive_and_a_cancelled_call_ends_alone(row: Row, urls: dict[str, str]) -> None:
    await walks.receive_notifications(client_of(row, urls), row)


@every_row
async def test_requests_and_notifications_of_the_server_in_both_eras(row: Row, urls: dict[str, str]) -> None:
    await walks.answer(client_of(row, urls), row)


@pytest.mark.parametrize(("name", "revision"), [
    ("sdk1", "2025-11-25"), ("sdk2", "2026-07-28"), ("fastmcp3", "2025-11-25"), ("fastmcp4", "2026-07-28"),
    ("typescript2", "2026-07-28"), ("everything", "2025-11-25"),
])  # fmt: skip
async def test_one_face_finds_the_newest_revision_of_each(name: str, revision: str, urls: dict[str, str]) -> None:
    async with connect(http(urls[name])) as client:
        assert client.protocol_version == revision
        assert await client.tools.list()


async def test_the_reference_server_on_the_typescript_sdk_1(
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
        # It registers tools that need these capabilities after the handshake, and notifies on the standalone stream.
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
        await walks.cancel_for_an_hour(client)


async def test_the_same_face_finds_a_server_of_http_and_sse(tmp_path: Path) -> None:
    """2025-11-25 basic/transports, "Backwards Compatibility": POST is refused, so the stream of GET is looked for."""
    server = Listener(sse_command, tmp_path / "server.log")
    try:
        server.wait()
        client = connect(http(f"{server.url}/sse"))
        client.roots.set(["file:///harbour"])
        async with client:
            assert (await client.tools.call("get-sum", {"a": 19, "b": 23})).text.endswith("42.")
            await walks.cancel_for_an_hour(client)
    finally:
        server.stop()
