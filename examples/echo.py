"""The smallest server: one async tool, over stdio. With `--tools N` also a catalogue of N tools, for measuring.

python examples/echo.py
python examples/echo.py --tools 100
"""

import sys
from collections.abc import Mapping

from mooring.server import Server

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
    if words[:1] == ["--tools"] and len(words) == 2 and words[1].isdecimal():
        add_catalogue(int(words[1]))
    elif words:
        print(f"usage: {sys.argv[0]} [--tools N]", file=sys.stderr)
        return 2
    return server.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
