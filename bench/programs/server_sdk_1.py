"""The official SDK 1.x, its low-level server: one async echo, and with `--tools N` a catalogue."""

import sys

import anyio
from _catalogue import ECHO, catalogue
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

COUNT = int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0
TOOLS = [types.Tool(**tool) for tool in [ECHO, *catalogue(COUNT)]]
server = Server("echo")


@server.list_tools()
async def list_tools():
    return TOOLS


@server.call_tool()
async def call_tool(name, arguments):
    return [types.TextContent(type="text", text=arguments["text"])]


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
