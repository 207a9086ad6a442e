"""The official SDK 2.x, its MCPServer: one async echo, and with `--tools N` a catalogue."""

import sys

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text


def add(number: int) -> None:
    names = [f"property_{index}" for index in range(10)]
    scope: dict[str, object] = {}
    parameters = ", ".join(f"{name}: str = ''" for name in names)
    exec(f"async def tool_{number:03}({parameters}) -> str:\n    return property_0\n", scope)
    server.add_tool(
        scope[f"tool_{number:03}"],
        description=f"The tool with the number {number} of a catalogue that is large enough to measure.",
        structured_output=False,
    )


for number in range(int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0):
    add(number)
server.run()
