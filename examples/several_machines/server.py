"""A server for several machines; docs/deployment.md starts two of them behind nginx, with one Redis.

jackstay serve server.py --http 8001 --sessions --backend redis://127.0.0.1/0
"""

import asyncio
import os

from jackstay import Context, Server

server = Server("files")


@server.tool(read_only=True)
async def where() -> str:
    """Return the process that runs this call."""
    return f"process {os.getpid()}"


@server.tool(task=True, idempotent=True)
async def index(seconds: int, ctx: Context) -> str:
    """Index all files, which takes some seconds. If its process dies, another one begins again."""
    for second in range(seconds):
        ctx.progress(second, seconds)
        await asyncio.sleep(1)
    return f"indexed by process {os.getpid()}"
