"""Run an ASGI app under test, with the same uvicorn, parser and event loop for all.

python http_x.py PORT PARSER ANSWERS [--tools N]      PARSER is h11 or httptools; ANSWERS is json or sse

PARSER may also be a server to compare with uvicorn: own (of `Server.run`), plain or granian.
"""

import sys
from typing import Any


def serve(app: Any) -> None:
    """Serve the app until the process is killed."""
    port, parser = int(sys.argv[1]), sys.argv[2]
    if parser in ("own", "plain", "granian"):
        import uvloop

        uvloop.run(_serve_with(parser, app, port))
        return
    import uvicorn

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools" if parser == "uvicorn" else parser,
        loop="asyncio" if parser == "h11" else "uvloop",
        access_log=False,
        log_level="warning",
    )


async def _serve_with(server: str, app: Any, port: int) -> None:
    if server == "plain":
        import http_plain

        await http_plain.serve(app, port)
    elif server == "own":
        from jackstay.server.http._listening import Http1Server
        from jackstay.server.http._sockets import bind_sockets

        await Http1Server(app).serve(bind_sockets("127.0.0.1", port))
    else:
        from granian.server.embed import Server

        await Server(app, address="127.0.0.1", port=port, interface="asgi", log_enabled=False).serve()
