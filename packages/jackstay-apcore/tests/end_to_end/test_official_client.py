"""The bridge as the official SDK's client sees it, over every transport.

What the public bridge gets wrong is here by name: section 4 of the design page of the bridge.
"""

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
    """The program as a module of this process: for servers in the background."""
    spec = importlib.util.spec_from_file_location("served_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(
    request: pytest.FixtureRequest, program: ModuleType, port: int, listening: Listening
) -> Iterator[str]:
    """The base of a server over HTTP, SSE beside it; over stdio the client starts its own."""
    if "stdio" in request.node.callspec.params.values():
        yield ""
        return
    server = MCPServer(program.make_registry(), transport="sse", port=port, dynamic=True)
    server.start()
    assert listening(port)
    yield f"http://127.0.0.1:{port}"
    server.stop()
    assert server.wait(30)


class Told:
    """What a client hears, and what it answers when it is asked."""

    def __init__(self, answer: str = "accept") -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.list_changed = asyncio.Event()

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action=self.answer, content={} if self.answer == "accept" else None)  # type: ignore[arg-type]

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self.list_changed.set()


@asynccontextmanager
async def streams(transport: str, base: str) -> AsyncIterator[Any]:
    if transport == "stdio":
        parameters = StdioServerParameters(
            command=sys.executable, args=[str(PROGRAM)], env={"PYTHONPATH": str(SOURCE)}
        )
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
    transport: str, base: str, told: Told | None = None, *, asks: bool = True
) -> AsyncIterator[ClientSession]:
    told = told or Told()
    async with streams(transport, base) as (read, write):
        elicit = told.elicit if asks else None
        async with ClientSession(
            read, write, elicitation_callback=elicit, message_handler=told.hear
        ) as session:
            await session.initialize()
            yield session


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_tools_are_listed_called_and_documented(transport: str, served: str) -> None:
    """F-003, F-004, F-006, F-007, F-010, F-013, F-020."""

    async def main() -> None:
        async with client(transport, served) as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert sorted(tools) == ["math.add", "text.count", "user.remove", "x.grow", "x.slow", "x.told"]
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

    asyncio.run(main())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_chunks_are_progress(transport: str, served: str) -> None:
    """F-024; section 4: progress goes backwards."""
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def main() -> types.CallToolResult:
        async with client(transport, served) as session:
            return await session.call_tool("text.count", {}, progress_callback=hear)

    result = asyncio.run(main())
    assert [number for number, _ in heard] == [1, 2, 3]
    assert [json.loads(message or "") for _, message in heard] == [{"text": str(n)} for n in range(3)]
    assert result.structuredContent == {"text": "2"}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("answer", ["accept", "decline", "cancel", "cannot"])
def test_approval_is_asked_of_the_client_and_fails_closed(transport: str, served: str, answer: str) -> None:
    """Settled; section 4: sensitive arguments appear in the approval prompt."""

    async def main() -> tuple[types.CallToolResult, Told]:
        told = Told(answer)
        async with client(transport, served, told, asks=answer != "cannot") as session:
            return await session.call_tool("user.remove", {"user": "ann", "password": "hunter2"}), told

    result, told = asyncio.run(main())
    assert result.isError is (answer != "accept")
    if answer == "cannot":
        assert "cannot be asked" in text(result)
        return
    (asked,) = told.asked
    assert "ann" in asked
    assert "hunter2" not in asked


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_cancelling_reaches_the_module(transport: str, served: str) -> None:
    """Section 4: cancellation is not passed on."""

    async def main() -> Any:
        async with client(transport, served) as session:
            number = session._request_id
            slow = asyncio.ensure_future(session.call_tool("x.slow", {}))
            while session._request_id == number:
                await asyncio.sleep(0)
            await session.call_tool("x.told", {"began": True})
            await session.send_notification(
                types.ClientNotification(
                    types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
                )
            )
            told = await session.call_tool("x.told", {"told": True})
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            return told.structuredContent

    assert asyncio.run(main()) == {"began": True, "told": True}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_module_that_is_registered_meanwhile_is_told_and_callable(transport: str, served: str) -> None:
    """F-015; section 4: `dynamic=True` changes nothing."""

    async def main() -> None:
        told = Told()
        async with client(transport, served, told) as session:
            await session.call_tool("x.grow", {})
            async with asyncio.timeout(20):
                await told.list_changed.wait()
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert "grown.add" in names
            assert (await session.call_tool("grown.add", {"a": 1})).structuredContent == {"total": 3}

    asyncio.run(main())


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_every_open_connection_is_told_of_a_change(transport: str, served: str) -> None:
    """F-015: also those that did not cause it, over either transport."""

    async def main() -> None:
        told = [Told() for _ in range(3)]
        other = next(place for place in TRANSPORTS[1:] if place != transport)
        async with (
            client(transport, served, told[0]) as session,
            client(transport, served, told[1]),
            client(other, served, told[2]),
        ):
            await session.call_tool("x.grow", {})
            async with asyncio.timeout(20):
                for one in told:
                    await one.list_changed.wait()

    asyncio.run(main())


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_clients_at_once_with_the_same_ids_get_their_own_answers(transport: str, served: str) -> None:
    """Section 4: concurrent HTTP clients share one session and lose answers with equal ids."""

    async def one(number: int) -> list[Any]:
        async with client(transport, served) as session:
            results = [await session.call_tool("math.add", {"a": number, "b": n}) for n in range(10)]
            return [result.structuredContent for result in results]

    async def main() -> Any:
        return await asyncio.gather(one(100), one(200), one(300))

    assert asyncio.run(main()) == [[{"total": base + n} for n in range(10)] for base in (100, 200, 300)]


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_it_serves_after_the_first_client_has_left(transport: str, served: str) -> None:
    """Section 4: HTTP dies after the first client leaves."""

    async def one() -> Any:
        async with client(transport, served) as session:
            return (await session.call_tool("math.add", {"a": 1})).structuredContent

    for _ in range(3):
        assert asyncio.run(one()) == {"total": 3}


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_a_foreign_host_or_page_is_refused(served: str, path: str, headers: dict[str, str]) -> None:
    """Section 4: no Host or Origin check on HTTP."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if path == "/mcp" else None
    common = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(served + path, data=body, headers={**common, **headers})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    assert caught.value.code == 403
    caught.value.close()


def test_keys_are_asked_for_where_they_are_set(program: ModuleType, port: int, listening: Listening) -> None:
    """NG-06 settled: HTTP keys come from jackstay."""
    from jackstay.server.http import keys

    server = MCPServer(
        program.make_registry(), transport="streamable-http", port=port, auth=keys({"ann": "k" * 40})
    )
    server.start()
    assert listening(port)
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/mcp", data=b"{}", headers={"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert caught.value.code == 401
        caught.value.close()
    finally:
        server.stop()
        assert server.wait(30)
