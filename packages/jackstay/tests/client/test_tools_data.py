"""`result.data`: typed by the output schema, which the client fetches when it needs it."""

import asyncio
import datetime
from typing import Any

import pytest

from jackstay import Fleet, Server, connect
from jackstay.client import _tools
from jackstay.server import Context, Next
from jackstay.types import CallToolResult
from peers import authored
from scripted.ways import EACH_WAY, HANDSHAKE, STATELESS, reached

DAY = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@EACH_WAY
async def test_data_is_typed_by_the_output_schema(way: str, version: str) -> None:
    async with reached(authored.make(), way, version) as client:
        order = (await client.tools.call("order", {"id": 7})).data
        assert (type(order).__name__, order.id, order.at) == ("Order", 7, DAY)
        assert (order.lines[0].name, order.lines[0].count) == ("tea", 2)
        result = await client.tools.call("orders")
        assert [row.at for row in result.data] == [DAY]
        assert result.data is result.data
        assert result.data_as(list[authored.Order]) == [authored.Order(1, DAY, [])]
        assert (await client.tools.call("quick")).data is None


def counting(log: list[str], *, fails: bool = False) -> Server:
    async def note(ctx: Context, call_next: Next) -> bytes:
        log.append(ctx.method)
        if fails and ctx.method == "tools/list":
            await asyncio.Event().wait()
        return await call_next()

    server = Server("x", middleware=[note])

    @server.tool
    async def one() -> int:
        return 1

    @server.tool
    async def text() -> str:
        return "text"

    return server


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_the_list_is_fetched_once_and_again_after_a_change(version: str) -> None:
    log: list[str] = []
    server = counting(log)
    async with connect(server, versions=(version,)) as client:
        assert (await client.tools.call("text")).text == "text"
        assert log == ["tools/call"], "text needs no schema"
        results = await asyncio.gather(*(client.tools.call("one") for _ in range(3)))
        assert [result.data for result in results] == [1, 1, 1]
        assert log.count("tools/list") == 1
        changed = asyncio.Event()
        client.on_notification(lambda _: changed.set())
        if version == HANDSHAKE:

            @server.tool
            async def two() -> dict[str, int]:
                return {"result": 2}

            await changed.wait()
            assert (await client.tools.call("two")).data == {"result": 2}, "an object of its own is not unwrapped"
            assert log.count("tools/list") == 2
        assert (await server.call_tool("one")).data == 1


async def test_a_server_that_does_not_list_delays_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tools, "MAX_LIST_SECONDS", 0.05)
    log: list[str] = []
    async with connect(counting(log, fails=True)) as client:
        for _ in range(2):
            result = await client.tools.call("one")
            assert result.data == {"result": 1}
            assert result.data_as(int) == 1
        assert log.count("tools/list") == 1


async def test_a_fleet_types_the_data_too() -> None:
    async with Fleet({"a": counting([])}) as fleet:
        assert (await fleet.call("a__one", {})).data == 1


def test_equality_does_not_depend_on_the_schema() -> None:
    made: list[Any] = [CallToolResult(content=[], structured_content={"a": 1}) for _ in range(2)]
    made[0].with_reader(None)
    assert made[0] == made[1]
