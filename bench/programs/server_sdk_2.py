"""The official SDK 2.x, its low-level server: one async echo, and with `--tools N` a catalogue."""

import sys

import anyio
from _catalogue import ECHO, catalogue
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

COUNT = int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0
TOOLS = [types.Tool(**tool) for tool in [ECHO, *catalogue(COUNT)]]
SCHEMAS = {tool.name: tool.input_schema for tool in TOOLS}


async def list_tools(context, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["text"])])


server = Server("echo", get_tool_input_schema=SCHEMAS.get, on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
