"""The server that the agents use: in memory, or as a program over stdio."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

from jackstay import Context, Server, ToolError
from jackstay.server import Image

# One red pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000"
    "000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
REASON = "the shelf is empty"


class Workshop:
    """A server, and events that show what happened in it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()
        self.server = server = Server("workshop")

        @server.tool(read_only=True)
        def add(a: int, b: int) -> dict[str, int]:
            """Add two numbers."""
            return {"sum": a + b}

        @server.tool
        def fail() -> str:
            """Fail."""
            raise ToolError(REASON)

        @server.tool
        def draw() -> Image:
            """Draw a picture."""
            return Image(data=PNG, mime_type="image/png")

        @server.tool
        async def work(ctx: Context) -> str:
            """Work, with progress and a log message."""
            ctx.progress(1, 2, "half")
            await ctx.warning("low battery")
            return "worked"

        @server.tool
        async def wait() -> str:
            """Wait forever."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
            return "never"

        @server.tool
        def crash(ledger: str) -> str:
            """Write to the ledger, and kill the server."""
            with Path(ledger).open("a", encoding="utf-8") as file:
                file.write("ran\n")
            os.kill(os.getpid(), signal.SIGKILL)
            return "never"


def main(*names: str) -> int:
    """Serve the tools with these names, or all."""
    server = Workshop().server
    for name in {"add", "fail", "draw", "work", "wait", "crash"} - {*names} if names else ():
        server.remove_tool(name)
    return server.run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
