"""A minimal correct ASGI endpoint, as the limit over HTTP: msgspec, one route.

python http_limit.py PORT PARSER ANSWERS [--tools N]
"""

import sys

from _serving import serve
from limit_server import answer

ANSWERS = sys.argv[3]
HEADERS = {
    "json": [(b"content-type", b"application/json")],
    "sse": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")],
}[ANSWERS]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message.get("more_body", False)
    response = answer(body)
    if response is None:
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
    elif ANSWERS == "sse":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"data: " + response + b"\n"})
    else:
        length = (b"content-length", b"%d" % len(response))
        await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, length]})
        await send({"type": "http.response.body", "body": response})


if __name__ == "__main__":
    serve(app)
