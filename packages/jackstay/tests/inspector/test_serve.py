"""The page over HTTP, on a free port of this machine."""

import asyncio
import http.client
import json
import re
import sys

import pytest

from jackstay.client import as_target
from jackstay.errors import UsageError
from jackstay.inspector import Choice, Inspection, serve_inspection
from scripted.inspected import make_server


def get(url: str, path: str, key: str = "") -> tuple[int, bytes]:
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#key=[\w-]{43}", url)
    assert found is not None, url
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


async def test_the_url_has_the_key() -> None:
    inspection = Inspection([Choice("demo", "demo", as_target(make_server()))])
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve_inspection(inspection, 0, ready.set_result))
    url = await ready
    status, body = await asyncio.to_thread(get, url, "/")
    assert (status, body[:15]) == (200, b"<!doctype html>")
    assert (await asyncio.to_thread(get, url, "/api/about"))[0] == 401
    key = url.rpartition("=")[2]
    status, body = await asyncio.to_thread(get, url, "/api/about", key)
    assert (status, json.loads(body)["servers"][0]["name"]) == (200, "demo")
    # An open stream does not delay the end.
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].partition("/")[0]))
    writer.write(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    await reader.readuntil(b"event: open")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await reader.read()
    writer.close()
    assert inspection.state == "closed"


async def test_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    import jackstay.server.http as package

    monkeypatch.delitem(vars(package), "Http1Server", raising=False)  # not delattr, which would load it
    monkeypatch.setitem(sys.modules, "jackstay.server.http._listening", None)
    inspection = Inspection([Choice("demo", "demo", as_target(make_server()))])
    with pytest.raises(UsageError, match=r"the inspector needs the extra `http`: pip install 'jackstay\[http\]'"):
        await serve_inspection(inspection, 0, print)
    await inspection.close()
