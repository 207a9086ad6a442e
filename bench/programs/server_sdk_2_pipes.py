"""The official SDK 2.x as in `server_sdk_2`, with its stdio threads replaced by asyncio's pipes.

It shows that most of the SDK's time over stdio is spent in those threads.
"""

import asyncio
import sys

from mcp.server.stdio import stdio_server
from server_sdk_2 import server


class Lines:
    """The part of a file object that the SDK reads from."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self.reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode()


class Out:
    """The part of a file object that the SDK writes to."""

    def __init__(self, pipe: asyncio.WriteTransport) -> None:
        self.pipe = pipe

    async def write(self, text: str) -> None:
        self.pipe.write(text.encode())

    async def flush(self) -> None:
        pass


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    async with stdio_server(Lines(reader), Out(pipe)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
