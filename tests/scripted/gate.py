"""A tool that waits: for tests of what happens to a call that runs.

Above: tests of `jackstay.server.http`. Below: `jackstay.server`.
"""

import asyncio

from jackstay.server import Context, Server


class Gate:
    """A tool that waits until it is let go, and what became of it. `stays`: it does not go when it is cancelled."""

    def __init__(self, server: Server, *, stays: bool = False) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.ended = asyncio.Event()
        self.stays = stays
        self.context: Context | None = None  # through which it may speak meanwhile

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
