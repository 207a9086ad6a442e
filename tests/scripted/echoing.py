"""A server that echoes, and raw frames for it."""

from typing import Any

from jackstay.server import Server

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def echoing(**options: Any) -> Server:
    """A server with a tool that echoes, and one that returns text of a given size."""
    server = Server("echo", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool(blocking=False)
    def large(size: int) -> str:
        return "x" * size

    return server


def call(id: Any, name: str = "echo", **arguments: Any) -> dict[str, Any]:
    """A call of one of its tools."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
