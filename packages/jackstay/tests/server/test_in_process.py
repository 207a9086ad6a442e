"""`server.call_tool()` and `server.list_tools()`; `ctx.request` and `ctx.client` over every transport."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jackstay import Context, Server, connect
from jackstay.errors import JsonRpcError, ToolCallError
from jackstay.server import Next
from jackstay.types import ElicitResult
from peers import authored
from scripted.ways import EACH_WAY, HANDSHAKE, STATELESS, reached


@EACH_WAY
async def test_a_handler_calls_another_tool_and_sees_its_client(way: str, version: str) -> None:
    async with reached(authored.make(), way, version) as client:
        assert (await client.tools.call("twice", {"n": 4})).structured_content == {"result": 8}
        about = (await client.tools.call("about")).structured_content
        assert isinstance(about, dict)
        host = about.pop("host")
        assert about == {
            # Without a session, a revision with a handshake has no request that describes the client.
            "client": None if (way, version) == ("http", HANDSHAKE) else "jackstay",
            "elicits": False,
            "request": ["POST", "/mcp", "127.0.0.1"] if way == "http" else None,
        }
        assert (host is not None) == (way == "http")


async def test_the_context_of_a_client_with_capabilities() -> None:
    client = connect(authored.make())
    client.elicitation.handle(lambda _: ElicitResult(action="decline"))
    async with client:
        result = await client.tools.call("about")
        assert result.structured_content == {"client": "jackstay", "elicits": True, "request": None, "host": None}


@pytest.mark.parametrize("versions", [(HANDSHAKE,), (STATELESS, HANDSHAKE)])
async def test_calls_in_process_run_the_lifespan_and_the_middleware(versions: tuple[str, ...]) -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        log.append("enter")
        yield "state"
        log.append("leave")

    async def note(ctx: Context, call_next: Next) -> bytes:
        log.append(ctx.method)
        return await call_next()

    server = Server("x", lifespan=lifespan, middleware=[note], versions=versions, page_size=1)

    @server.tool(scopes={"a:b"})
    async def state(ctx: Context) -> str:
        ctx.progress(1)
        ctx.info("dropped")
        return str(ctx.state)

    @server.tool
    def fails() -> None:
        raise ValueError

    @server.tool
    async def question(ctx: Context) -> str:
        await ctx.elicit("?", {"type": "object", "properties": {}})
        return "never"

    assert (await server.call_tool("state")).text == "state"
    assert log == ["enter", "tools/call", "leave"]
    assert [tool.name for tool in await server.list_tools()] == ["state", "fails", "question"]
    with pytest.raises(ToolCallError, match="the tool 'fails' failed: tool fails failed"):
        await server.call_tool("fails", {})
    with pytest.raises(JsonRpcError, match="unknown tool: other"):
        await server.call_tool("other")
    with pytest.raises((JsonRpcError, ToolCallError), match=r"elicitation|capability"):
        await server.call_tool("question")


async def test_cancelling_a_call_cancels_the_tool() -> None:
    server = Server("x")
    has_begun, was_cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    call = asyncio.create_task(server.call_tool("wait"))
    await has_begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await was_cancelled.wait()
