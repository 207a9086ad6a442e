"""Jackstay over Streamable HTTP, with the public decorators, as `server.run()` serves it.

python http_jackstay.py PORT PARSER ANSWERS [--sessions] [--tools N]      PARSER as in `_serving.py`, or uvicorn
"""

import sys

from _catalogue import catalogue

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

OPTIONS = {"response_format": "sse" if sys.argv[3] == "sse" else "auto", "sessions": "--sessions" in sys.argv}
if sys.argv[2] in ("h11", "httptools"):
    loop = "asyncio" if sys.argv[2] == "h11" else "uvloop"
    server.run(transport="http", port=int(sys.argv[1]), parser=sys.argv[2], loop=loop, **OPTIONS)
else:  # to compare HTTP servers
    from _serving import serve

    serve(server.asgi(**OPTIONS))
