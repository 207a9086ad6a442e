"""The official SDK 1.x, its low-level server over Streamable HTTP.

python http_sdk_1.py PORT PARSER ANSWERS [--tools N]
"""

import contextlib
import sys

from _serving import serve
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from server_sdk_1 import server
from starlette.applications import Starlette
from starlette.routing import Mount

manager = StreamableHTTPSessionManager(server, json_response=sys.argv[3] == "json")


@contextlib.asynccontextmanager
async def lifespan(_):
    async with manager.run():
        yield


async def endpoint(scope, receive, send):
    await manager.handle_request(scope, receive, send)


serve(Starlette(routes=[Mount("/", endpoint)], lifespan=lifespan))
