"""`ToolList`: the tools of a source as a list for a framework, while a `with` block runs."""

from collections.abc import Callable
from typing import Generic, TypeVar

from jackstay.agents._source import AgentTool, ToolSource

T = TypeVar("T")


class ToolList(Generic[T]):
    """`async with` and `with` open the source and return its tools, converted; the end of the block closes it."""

    def __init__(self, source: ToolSource, convert: Callable[[AgentTool], T]) -> None:
        self._source = source
        self._convert = convert

    async def __aenter__(self) -> list[T]:
        await self._source.open()
        try:
            return [self._convert(tool) for tool in await self._source.list_tools()]
        except BaseException:
            await self._source.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._source.close()

    def __enter__(self) -> list[T]:
        self._source.wait_open()
        try:
            return [self._convert(tool) for tool in self._source.wait_list_tools()]
        except BaseException:
            self._source.wait_close()
            raise

    def __exit__(self, *_: object) -> None:
        self._source.wait_close()
