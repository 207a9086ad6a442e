"""The bridge with the client of the official SDK, over every transport."""

import asyncio
import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError

from apcore_mcp import MCPServer
from scripted.places import PYTHONPATH

PROGRAM = Path(__file__).parent / "program.py"
SOURCE = PYTHONPATH

TRANSPORTS = ("stdio", "streamable-http", "sse")

Listening = Callable[[int], bool]


@pytest.fixture
def program() -> ModuleType:
    """The program as a module of this process, for background servers."""
    spec = importlib.util.spec_from_file_location("served_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(request: pytest.FixtureRequest, program: ModuleType, port: int, listening: Listening) -> Iterator[str]:
    """The base URL of a server over HTTP and SSE; empty for stdio, where the client starts the server."""
    if "stdio" in request.node.callspec.params.values():
        yield ""
        return
    server = MCPServer(program.make_registry(), transport="sse", port=port, dynamic=True)
    server.start()
    assert listening(port)
    yield f"http://127.0.0.1:{port}"
    server.stop()
    assert server.wait(120)


class Recorder:
    """Records elicitations and list changes, and answers elicitations."""

    def __init__(self, answer: str = "accept") -> None:
        self.answer = answer
        self.elicited: list[str] = []
        self.list_changed = asyncio.Event()

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.elicited.append(params.message)
        return types.ElicitResult(action=self.answer, content={} if self.answer == "accept" else None)  # type: ignore[arg-type]

    async def receive(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self.list_changed.set()


@asynccontextmanager
async def streams(transport: str, base: str) -> AsyncIterator[Any]:
    if transport == "stdio":
        parameters = StdioServerParameters(command=sys.executable, args=[str(PROGRAM)], env={"PYTHONPATH": str(SOURCE)})
        async with stdio_client(parameters) as (read, write):
            yield read, write
    elif transport == "sse":
        async with sse_client(f"{base}/sse") as (read, write):
            yield read, write
    else:
        async with streamable_http_client(f"{base}/mcp") as (read, write, _):
            yield read, write


@asynccontextmanager
async def client(
    transport: str, base: str, recorder: Recorder | None = None, *, can_elicit: bool = True
) -> AsyncIterator[ClientSession]:
    recorder = recorder or Recorder()
    async with streams(transport, base) as (read, write):
        elicit = recorder.elicit if can_elicit else None
        async with ClientSession(read, write, elicitation_callback=elicit, message_handler=recorder.receive) as session:
            await session.initialize()
            yield session


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_tools_are_listed_called_and_documented(transport: str, served: str) -> None:

    async with client(transport, served) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert sorted(tools) == ["math.add", "text.count", "user.remove", "x.grow", "x.slow", "x.status"]
        assert tools["math.add"].annotations is None
        hints = tools["user.remove"].annotations
        assert hints is not None
        assert hints.destructiveHint is True
        result = await session.call_tool("math.add", {"a": 1})
        assert (text(result), result.structuredContent) == ('{"total": 3}', {"total": 3})
        result = await session.call_tool("math.add", {})
        assert result.isError
        assert text(result) == "Input validation failed:\n- a: Field required (required)"
        with pytest.raises(McpError, match="Module not found: nope"):
            await session.call_tool("nope", {})
        contents = (await session.read_resource("docs://math.add")).contents  # type: ignore[arg-type]
        assert isinstance(contents[0], types.TextResourceContents)
        assert contents[0].text == "Adds."


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_chunks_are_progress(transport: str, served: str) -> None:
    progress_updates: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_updates.append((progress, message))

    async with client(transport, served) as session:
        result = await session.call_tool("text.count", {}, progress_callback=on_progress)
    assert [number for number, _ in progress_updates] == [1, 2, 3]
    assert [json.loads(message or "") for _, message in progress_updates] == [{"text": str(n)} for n in range(3)]
    assert result.structuredContent == {"text": "2"}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("answer", ["accept", "decline", "cancel", "cannot"])
async def test_approval_by_elicitation(transport: str, served: str, answer: str) -> None:
    """The prompt contains no sensitive arguments."""
    recorder = Recorder(answer)
    async with client(transport, served, recorder, can_elicit=answer != "cannot") as session:
        result = await session.call_tool("user.remove", {"user": "ann", "password": "hunter2"})
    assert result.isError is (answer != "accept")
    if answer == "cannot":
        assert "does not support elicitation" in text(result)
        return
    (elicited,) = recorder.elicited
    assert "ann" in elicited
    assert "hunter2" not in elicited


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_cancellation_reaches_the_module(transport: str, served: str) -> None:
    async with client(transport, served) as session:
        number = session._request_id
        slow = asyncio.ensure_future(session.call_tool("x.slow", {}))
        while session._request_id == number:
            await asyncio.sleep(0)
        await session.call_tool("x.status", {"started": True})
        await session.send_notification(
            types.ClientNotification(
                types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
            )
        )
        status = await session.call_tool("x.status", {"cancelled": True})
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
    assert status.structuredContent == {"started": True, "cancelled": True}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_registered_module_is_announced_and_callable(transport: str, served: str) -> None:
    """The server has `dynamic=True`."""
    recorder = Recorder()
    async with client(transport, served, recorder) as session:
        await session.call_tool("x.grow", {})
        async with asyncio.timeout(120):
            await recorder.list_changed.wait()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert "grown.add" in names
        assert (await session.call_tool("grown.add", {"a": 1})).structuredContent == {"total": 3}


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
async def test_every_connection_is_notified_of_changes(transport: str, served: str) -> None:
    """This includes connections that did not cause the change, over both transports."""
    recorders = [Recorder() for _ in range(3)]
    other = next(name for name in TRANSPORTS[1:] if name != transport)
    async with (
        client(transport, served, recorders[0]) as session,
        client(transport, served, recorders[1]),
        client(other, served, recorders[2]),
    ):
        await session.call_tool("x.grow", {})
        async with asyncio.timeout(120):
            for recorder in recorders:
                await recorder.list_changed.wait()


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
async def test_concurrent_clients_with_equal_ids(transport: str, served: str) -> None:
    """Each client gets its own responses."""

    async def calls(number: int) -> list[Any]:
        async with client(transport, served) as session:
            results = [await session.call_tool("math.add", {"a": number, "b": n}) for n in range(10)]
            return [result.structuredContent for result in results]

    assert (await asyncio.gather(calls(100), calls(200), calls(300))) == [
        [{"total": base + n} for n in range(10)] for base in (100, 200, 300)
    ]


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
async def test_server_continues_after_a_client_disconnects(transport: str, served: str) -> None:
    for _ in range(3):
        async with client(transport, served) as session:
            assert (await session.call_tool("math.add", {"a": 1})).structuredContent == {"total": 3}


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_other_hosts_and_origins_are_rejected(served: str, path: str, headers: dict[str, str]) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if path == "/mcp" else None
    common = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(served + path, data=body, headers={**common, **headers})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=240)
    assert caught.value.code == 403
    caught.value.close()


def test_keys_are_required(program: ModuleType, port: int, listening: Listening) -> None:
    from jackstay.server.http import keys

    server = MCPServer(program.make_registry(), transport="streamable-http", port=port, auth=keys({"ann": "k" * 40}))
    server.start()
    assert listening(port)
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/mcp", data=b"{}", headers={"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=240)
        assert caught.value.code == 401
        caught.value.close()
    finally:
        server.stop()
        assert server.wait(120)
