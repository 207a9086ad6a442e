"""Run an ASGI app under test, with the same uvicorn, parser and event loop for all.

python http_x.py PORT PARSER ANSWERS [--tools N]      PARSER is h11 or httptools; ANSWERS is json or sse

PARSER may also be a server to compare with uvicorn: bounded (as `Server.run` configures it), plain or granian.
"""

import sys
from typing import Any


def serve(app: Any) -> None:
    """Serve the app until the process is killed."""
    port, parser = int(sys.argv[1]), sys.argv[2]
    if parser in ("plain", "granian"):
        import uvloop

        uvloop.run(_serve_with(parser, app, port))
        return
    import uvicorn

    protocol: Any = parser
    if parser == "bounded":
        from jackstay.server.http._head import make_httptools_protocol

        protocol = make_httptools_protocol(65_536, 10.0)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        http=protocol,
        loop="asyncio" if parser == "h11" else "uvloop",
        access_log=False,
        log_level="warning",
    )


async def _serve_with(server: str, app: Any, port: int) -> None:
    if server == "plain":
        import http_plain

        await http_plain.serve(app, port)
    else:
        from granian.server.embed import Server

        await Server(app, address="127.0.0.1", port=port, interface="asgi", log_enabled=False).serve()
