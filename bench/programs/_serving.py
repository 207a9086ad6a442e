"""Run an ASGI app under test, with the same uvicorn, parser and event loop for all.

python http_x.py PORT PARSER ANSWERS [--tools N]      PARSER is h11 or httptools; ANSWERS is json or sse
"""

import sys
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Serve the app until the process is killed."""
    parser = sys.argv[2]
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        http=parser,
        loop="uvloop" if parser == "httptools" else "asyncio",
        access_log=False,
        log_level="warning",
    )
