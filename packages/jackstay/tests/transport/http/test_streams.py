"""The GET stream: opening, resuming, and failures that do not affect calls."""

import asyncio
import itertools
import json
from typing import Any

import pytest

from jackstay.client import Client, connect
from jackstay.errors import OutcomeUnknownError, ProtocolError, TransportError
from jackstay.protocol.wire import EventReader, encode_event
from jackstay.testing import on_fake_clock
from jackstay.transport.http import http
from jackstay.transport.http._streams import MAX_EVENTS_AT_ONCE, next_reader, resume_delay
from scripted.http import HANDSHAKE, Mcp, MemoryHttp, Reply, Script, Seen

NOTE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def client_of(script: Script, **options: Any) -> tuple[Client, MemoryHttp, list[str]]:
    server = MemoryHttp(script)
    client = connect(http("http://127.0.0.1/mcp", client=server), **options)
    received: list[str] = []
    client.on_notification(lambda notice: received.append(notice.method))
    return client, server, received


# --- delays -----------------------------------------------------------------------------------------------------------


def test_the_delay_is_that_of_the_server_and_doubles_with_failures() -> None:
    for retry, failures, retry_in, wait in [
        (None, 0, None, 1.0),
        (500, 0, None, 0.5),
        (0, 0, None, 0.05),  # the minimum
        (51, 0, None, 0.051),
        (0, 1, None, 2.0),
        (500, 2, None, 4.0),
        (None, 50, None, 30.0),
        (60_000, 0, None, 60.0),
        (60_000, 3, None, 60.0),
        (500, 0, 7.0, 7.0),
        (9_000, 0, 7.0, 9.0),
    ]:
        assert resume_delay(retry, failures, retry_in) == wait


def test_the_next_reader_continues_after_the_last_event() -> None:
    reader = EventReader(100)
    reader.feed(b"id: a\nretry: 5\ndata: x\n\ndata: unfinished")
    assert reader.next_event() is not None
    following = next_reader(reader)
    assert (following.last_event_id, following.retry, following.limit) == ("a", 5, 100)
    assert following.next_event() is None


# --- the stream -------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_notifications_on_the_get_stream_are_received() -> None:
    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event(NOTE)
        reply.event(b"noise", event="other")
        await reply.gone.wait()

    client, server, received = client_of(Mcp(HANDSHAKE, session="s", GET=get))
    async with client:
        await asyncio.sleep(1)
        assert received == ["notifications/tools/list_changed"]
        assert len(server.received("GET")) == 1
    assert all(reply.gone.is_set() for reply in server.replies if reply.headers.get("content-type"))


@on_fake_clock
async def test_a_request_on_the_stream_is_answered_by_a_post() -> None:
    answers: list[Any] = []

    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        await reply.gone.wait()

    async def answer(seen: Seen, reply: Reply) -> None:
        answers.append(seen.rpc)
        reply.send(202)

    client, _, _ = client_of(Mcp(HANDSHAKE, GET=get, response=answer))
    async with client:
        await asyncio.sleep(1)
    assert answers == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


@pytest.mark.parametrize("status", [405, 404, 200])
@on_fake_clock
async def test_a_server_without_the_stream_gets_one_get(status: int) -> None:
    """2025-11-25 "Listening for Messages": 405. Frameworks without the route respond 404; the session is valid."""

    async def none(seen: Seen, reply: Reply) -> None:
        reply.send(status, b"x", "text/html")

    client, server, _ = client_of(Mcp(HANDSHAKE, session="s", GET=none))
    async with client:
        await asyncio.sleep(100)
        assert client.state == "ready"
        assert len(server.received("GET")) == 1
        assert len(server.received("initialize")) == 1


class Ending:
    """A stream that ends repeatedly; `opened` has the times and the last event ids."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = list(pieces)
        self.opened: list[tuple[float, str]] = []

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        self.opened.append((asyncio.get_running_loop().time(), seen.headers.get("last-event-id", "")))
        piece = self.pieces.pop(0) if self.pieces else None
        if isinstance(piece, Exception):
            raise piece
        if isinstance(piece, int):
            reply.send(piece, retry_after="5")
            return
        reply.sse()
        if piece is None:
            await reply.gone.wait()
            return
        reply.event(NOTE, **piece)
        if piece.get("id") == "cut":
            reply.cut()
        else:
            reply.end()


@on_fake_clock
async def test_a_stream_that_ends_is_resumed_after_retry() -> None:
    """2025-11-25 "Resumability and Redelivery"."""
    ending = Ending({"id": "a", "retry": 2000}, {"id": "cut"}, {})
    client, _, received = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(20)
    assert [id for _, id in ending.opened] == ["", "a", "cut", "cut"]
    starts = [at for at, _ in ending.opened]
    assert [b - a for a, b in itertools.pairwise(starts)] == [2.0, 2.0, 2.0]
    assert len(received) == 3


@on_fake_clock
async def test_a_failing_server_is_retried_with_backoff() -> None:
    """If it cannot be reached, responds 503, or ends the stream at once."""
    ending = Ending(TransportError("refused"), 503, OutcomeUnknownError("the connection was lost"))
    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(60)
        assert client.state == "ready", "calls are not affected"
    starts = [at for at, _ in ending.opened]
    assert [b - a for a, b in itertools.pairwise(starts)] == [2.0, 5.0, 8.0]


@pytest.mark.parametrize(
    ("pieces", "ids"),
    [
        (({"id": "old"}, 400), ["", "old", ""]),
        (({"id": "e" * 5000},), ["", ""]),  # not a valid header
        (({"id": "old"}, 400, 400), ["", "old", ""]),
    ],
)
@on_fake_clock
async def test_a_stream_that_cannot_be_resumed_is_restarted_once(pieces: tuple[Any, ...], ids: list[str]) -> None:
    """Servers drop old events: later events must still be received."""
    ending = Ending(*pieces)
    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(100)
        assert client.state == "ready"
    assert [id for _, id in ending.opened] == ids


@on_fake_clock
async def test_a_rejected_stream_is_not_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending(400)
    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(100)
    assert len(ending.opened) == 1
    assert "the server rejected the GET stream" in caplog.text


@on_fake_clock
async def test_a_stream_that_cannot_be_requested_is_not_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending(ProtocolError("odd"))
    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(100)
        assert client.state == "ready"
    assert len(ending.opened) == 1
    assert "cannot open the GET stream: odd" in caplog.text


@on_fake_clock
async def test_a_bug_in_an_http_client_is_logged_and_only_the_stream_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ending = Ending(ZeroDivisionError("bug"))
    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=ending))
    async with client:
        await asyncio.sleep(1)
        assert client.state == "ready"
    assert "the GET stream failed" in caplog.text


@on_fake_clock
async def test_an_event_over_the_limit_is_dropped_and_the_next_received(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.write(b"data: " + b"x" * 5000 + b"\n\n")
        reply.event(NOTE)
        await reply.gone.wait()

    client, _, received = client_of(Mcp(HANDSHAKE, GET=get), max_frame_bytes=4096)
    async with client:
        await asyncio.sleep(1)
        assert client.state == "ready"
    assert received == ["notifications/tools/list_changed"]
    assert "dropped an event" in caplog.text


@on_fake_clock
async def test_a_404_for_a_stream_that_was_open_means_a_lost_session() -> None:
    """2025-11-25 "Session Management": a new session gets its own stream."""
    script = Mcp(HANDSHAKE, session="s")
    opened: list[str] = []

    async def get(seen: Seen, reply: Reply) -> None:
        session = seen.headers["mcp-session-id"]
        opened.append(session)
        if session not in script.sessions:
            reply.send(404)
            return
        reply.sse()
        reply.event(NOTE, id="1")
        if session == "s1":
            script.sessions.clear()
            script.session = "t"
            reply.end()
            return
        await reply.gone.wait()

    script.on["GET"] = get
    client, server, _ = client_of(script)
    async with client:
        await asyncio.sleep(20)
        assert client.state == "ready"
        assert opened == ["s1", "s1", "t1"]
        assert len(server.received("initialize")) == 2


@on_fake_clock
async def test_the_stream_of_a_lost_session_is_closed() -> None:
    """Nothing of the old session is delivered in the new one."""
    script = Mcp(HANDSHAKE, session="s")
    streams: list[Reply] = []

    async def get(seen: Seen, reply: Reply) -> None:
        streams.append(reply)
        reply.sse()
        await reply.gone.wait()

    script.on["GET"] = get
    client, _, received = client_of(script)
    async with client:
        await asyncio.sleep(1)
        script.sessions.clear()
        script.session = "t"
        await client.tools.call("echo")
        await asyncio.sleep(1)
        assert len(streams) == 2
        assert [stream.gone.is_set() for stream in streams] == [True, False]
        streams[0].event(NOTE)
        await asyncio.sleep(1)
        assert received == []


@on_fake_clock
async def test_a_2024_11_05_server_over_streamable_http_gets_no_get() -> None:
    client, server, _ = client_of(Mcp("2024-11-05"))
    async with client:
        await client.tools.call("echo")
    assert server.received("GET") == []


@on_fake_clock
async def test_while_the_stream_is_open_a_failed_connection_does_not_mean_down() -> None:
    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        await reply.gone.wait()

    async def unreachable(seen: Seen, reply: Reply) -> None:
        raise TransportError("refused")

    client, _, _ = client_of(Mcp(HANDSHAKE, GET=get, tools__call=unreachable))
    async with client:
        await asyncio.sleep(1)
        with pytest.raises(TransportError):
            await client.tools.call("echo")
        assert client.state == "ready"


@on_fake_clock
async def test_a_server_that_sends_without_pause_does_not_delay_the_others() -> None:
    async def get(seen: Seen, reply: Reply) -> None:
        reply.sse()
        reply.write(encode_event(json.dumps(NOTE).encode()) * 1_000)
        await reply.gone.wait()

    client, _, _ = client_of(Mcp(HANDSHAKE, session="s", GET=get))
    arrived = 0

    def count(name: str, _: Any) -> None:
        nonlocal arrived
        arrived += name == "jackstay.notification.received"

    client.on_event(count)
    seen = [0]
    async with client:
        while arrived < 1_000:
            await asyncio.sleep(0)
            seen.append(arrived)
    assert max(after - before for before, after in itertools.pairwise(seen)) == MAX_EVENTS_AT_ONCE
