"""FastMCP, 3.x and 4.x: one async echo, and with `--tools N` a catalogue."""

import sys

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool(output_schema=None)
async def echo(text: str) -> str:
    """Return the text."""
    return text


def add(number: int) -> None:
    names = [f"property_{index}" for index in range(10)]
    scope: dict[str, object] = {}
    parameters = ", ".join(f"{name}: str = ''" for name in names)
    exec(f"async def tool_{number:03}({parameters}) -> str:\n    return property_0\n", scope)
    server.tool(scope[f"tool_{number:03}"])


for number in range(int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0):
    add(number)

if __name__ == "__main__":
    server.run(show_banner=False)
