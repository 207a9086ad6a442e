"""How every ASGI app under test is run: the same uvicorn, the same parser and loop.

python http_x.py PORT PARSER ANSWERS [--tools N]      PARSER is h11 or httptools; ANSWERS is json or sse
"""

import sys
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Until the process is ended."""
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
