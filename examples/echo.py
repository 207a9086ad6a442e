"""The smallest server: one async tool, over stdio or HTTP. `--tools N` adds N tools, for benchmarks.

python examples/echo.py
python examples/echo.py --tools 100
python examples/echo.py --http 8000              # Streamable HTTP at http://127.0.0.1:8000/mcp
"""

import sys
from collections.abc import Mapping

from jackstay.server import Server

server = Server("echo", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


def add_catalogue(count: int) -> None:
    """Add this many tools with ten properties each."""
    properties = {
        f"property_{number}": {"type": "string", "description": f"The property with the number {number}"}
        for number in range(10)
    }
    schema = {"type": "object", "properties": properties, "required": ["property_0"]}

    async def repeat(arguments: Mapping[str, object]) -> str:
        return str(arguments.get("property_0"))

    for number in range(count):
        server.add_tool(
            f"tool_{number:03}",
            input_schema=schema,
            handler=repeat,
            validate=False,
            description=f"The tool with the number {number} of a catalogue that is large enough to measure.",
        )


def main(arguments: list[str]) -> int:
    """Serve; `arguments` are those of the command line."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    is_known = options.keys() <= {"--tools", "--http"} and all(value.isdecimal() for value in options.values())
    if not is_known or len(arguments) != 2 * len(options):
        print(f"usage: {sys.argv[0]} [--tools N] [--http PORT]", file=sys.stderr)
        return 2
    add_catalogue(int(options.get("--tools", 0)))
    if "--http" in options:
        return server.run(transport="http", host="127.0.0.1", port=int(options["--http"]))
    return server.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
