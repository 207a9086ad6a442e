"""Jackstay over Streamable HTTP, with the public decorators, on the same uvicorn as the others.

python http_jackstay.py PORT PARSER ANSWERS [--sessions] [--tools N]
"""

import sys

from _catalogue import catalogue
from _serving import serve

from jackstay.server import Server

COUNT = int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0
server = Server("echo", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def repeat(arguments: dict[str, object]) -> str:
    return str(arguments.get("property_0"))


for tool in catalogue(COUNT):
    server.add_tool(
        tool["name"],
        description=tool["description"],
        input_schema=tool["inputSchema"],
        handler=repeat,
        validate=False,
    )

serve(server.asgi(response_format="sse" if sys.argv[3] == "sse" else "auto", sessions="--sessions" in sys.argv))
