"""The smallest server: one async tool, over stdio or HTTP. With `--tools N` also a catalogue of N tools, for measuring.

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
    """Say the same again."""
    return text


def add_catalogue(count: int) -> None:
    """Offer this many tools with ten properties each; what they do is the same."""
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


def main(words: list[str]) -> int:
    """Serve; `words` are the arguments of the command line."""
    given = dict(zip(words[::2], words[1::2], strict=False))
    is_known = given.keys() <= {"--tools", "--http"} and all(value.isdecimal() for value in given.values())
    if not is_known or len(words) != 2 * len(given):
        print(f"usage: {sys.argv[0]} [--tools N] [--http PORT]", file=sys.stderr)
        return 2
    add_catalogue(int(given.get("--tools", 0)))
    if "--http" in given:
        return server.run(transport="http", host="127.0.0.1", port=int(given["--http"]))
    return server.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
