"""A tool that waits, for tests of running calls."""

import asyncio

from jackstay.server import Context, Server


class Gate:
    """A tool that waits until `open` is set. With `stays` it ignores cancellation."""

    def __init__(self, server: Server, *, stays: bool = False) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.ended = asyncio.Event()
        self.stays = stays
        self.context: Context | None = None  # of the running call

        @server.tool
        async def wait(ctx: Context) -> str:
            self.context = ctx
            self.began.set()
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                if not self.stays:
                    raise
            finally:
                self.ended.set()
            return "waited"
