"""Tools as a list, while a `with` block runs."""

import threading

import pytest

from jackstay import Server
from jackstay.agents import AgentTool, ToolList, ToolSource


def make_list(fails: bool = False) -> ToolList[str]:
    server = Server("shop")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    def convert(tool: AgentTool) -> str:
        if fails:
            raise ValueError(tool.name)
        return tool.name

    return ToolList(ToolSource(server), convert)


def is_running() -> bool:
    return any(thread.name == "jackstay-sync" for thread in threading.enumerate())


def test_a_block_has_the_tools() -> None:
    with make_list() as tools:
        assert tools == ["add"]
        assert is_running()
    assert not is_running()


async def test_an_async_block_has_the_tools() -> None:
    async with make_list() as tools:
        assert tools == ["add"]
        assert is_running()
    assert not is_running()


async def test_a_failed_conversion_closes_the_connection() -> None:
    with pytest.raises(ValueError, match="add"):
        make_list(fails=True).__enter__()
    with pytest.raises(ValueError, match="add"):
        await make_list(fails=True).__aenter__()
    assert not is_running()
