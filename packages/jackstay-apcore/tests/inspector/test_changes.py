"""Live updates of the inspector page."""

import asyncio
import threading
from typing import Any

import pytest
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.inspector import changes
from apcore_mcp.inspector.changes import Changes
from jackstay.server import Server


class Reader:
    """A page that receives events and can disconnect."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.status = 0
        self.disconnected = asyncio.Event()
        self.is_broken = False

    async def receive(self) -> Any:
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.is_broken:
            raise OSError("the client has disconnected")
        else:
            self.sent.put_nowait(message["body"])


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


async def test_change_on_another_thread(catalogue: Catalogue) -> None:
    stream, reader = Changes(Server("demo").asgi(), catalogue), Reader()
    streaming = asyncio.ensure_future(stream.stream(reader.receive, reader.send))
    assert await reader.sent.get() == b"event: open\ndata: {}\n\n"
    thread = threading.Thread(target=catalogue.skip, args=("math.add", "gone"))
    thread.start()
    assert await reader.sent.get() == b"event: changed\ndata: {}\n\n"
    thread.join()
    reader.disconnected.set()
    await streaming
    assert reader.status == 200
    assert repr(stream) == "<Changes 0 streams>"
    assert catalogue._listeners == []


async def test_many_changes_are_one_event(catalogue: Catalogue) -> None:
    stream, reader = Changes(Server("demo").asgi(), catalogue), Reader()
    streaming = asyncio.ensure_future(stream.stream(reader.receive, reader.send))
    await reader.sent.get()
    for id in ("math.add", "math.later", "text.count"):
        catalogue.skip(id, "gone")
    assert await reader.sent.get() == b"event: changed\ndata: {}\n\n"
    reader.disconnected.set()
    await streaming
    assert await reader.sent.get() == b"", "expected the end of the stream, not a second event"


async def test_stream_ends_when_the_server_drains(catalogue: Catalogue) -> None:
    app = Server("demo").asgi()
    stream, reader = Changes(app, catalogue), Reader()
    streaming = asyncio.ensure_future(stream.stream(reader.receive, reader.send))
    await reader.sent.get()
    app.refuse_new()
    await streaming


async def test_keepalive(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "TICK", 0.01)
    monkeypatch.setattr(changes, "KEEPALIVE", 0.02)

    stream, reader = Changes(Server("demo").asgi(), catalogue), Reader()
    streaming = asyncio.ensure_future(stream.stream(reader.receive, reader.send))
    await reader.sent.get()
    assert await reader.sent.get() == b": alive\n\n"
    reader.is_broken = True
    await streaming
    assert not stream.is_full


def test_change_after_the_loop_has_closed(catalogue: Catalogue) -> None:
    loop = asyncio.new_event_loop()
    wake = changes._waker(loop, asyncio.Event())
    loop.close()
    wake(None)  # type: ignore[arg-type]  # the change is not used


def test_number_of_streams_is_limited(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Changes(Server("demo").asgi(), catalogue)
    assert not stream.is_full
    monkeypatch.setattr(changes, "MAX_STREAMS", 0)
    assert stream.is_full
