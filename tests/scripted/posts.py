"""A server for tests of stateless POSTs."""

import asyncio
from typing import Any

from jackstay.server import Context, Server


def serving(**options: Any) -> Server:
    """A server whose tools echo, report progress, and log."""
    server = Server("post", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool(blocking=False)
    def at_once(ctx: Context, text: str) -> str:
        ctx.progress(1, 1)
        return text

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        for step in range(count):
            ctx.progress(step + 1, count)
            await asyncio.sleep(0)
        return "done"

    @server.tool
    async def loud(ctx: Context) -> str:
        ctx.log("warning", "careful")
        return "logged"

    return server
