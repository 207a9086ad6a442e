"""The driver: telemetry events, and what listeners may do meanwhile."""

import asyncio
import random
from typing import Any

import pytest

from jackstay.client import EVENTS, Client
from jackstay.errors import (
    ClosedError,
    McpError,
    UsageError,
)
from jackstay.protocol.client import Settings
from jackstay.testing import ScriptedPeer, on_fake_clock
from scripted.peer import HANDSHAKE, listen, opened, peered, text_result

# --- logs -------------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_response_with_an_id_that_no_request_has_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its caller waits until the deadline; without the warning nothing would show that the server responded."""
    async with opened(server_capabilities={"tools": {}}) as (client, peer):
        call = asyncio.ensure_future(client.tools.call("x", timeout=1))
        request = await peer.expect("tools/call")
        peer.respond(str(request.id), text_result("a string"))
        peer.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}')
        for _ in range(20):
            peer.respond(999, {})
        with pytest.raises(McpError):
            await call
        peer.respond(request.id, text_result("late"))
        await client.ping()
    text = "scripted: ignored a response that belongs to no open request:"
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        f"{text} id '{request.id}' (1 so far)",
        f"{text} id None, error -32700: 'not JSON' (2 so far)",
        *(f"{text} id 999 ({count} so far)" for count in (3, 4, 5, 6, 7, 8, 16)),
    ]


# --- telemetry --------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_every_event_has_exactly_its_fields() -> None:
    async with peered(server_capabilities={"tools": {}}) as (client, peer):
        events = listen(client)
        await client.open()
        peer.on["tools/call"] = text_result("hi")
        await client.tools.call("x")
        peer.on["tools/call"] = None
        peer.notify("notifications/message", level="info", data="x")
        with pytest.raises(McpError):
            await client.tools.call("x", timeout=1)
        peer.respond(peer.got("tools/call")[1]["id"], text_result("late"))
        peer.respond("unknown", {})
        peer.send(b"Starting server...")
        await client.ping()
        peer.crash()
        await peer.until(lambda: peer.connections == 2)
        await client.ready(60)
        client._telemetry.emit_exit(None)
        client._telemetry.emit_exit(-9)
        await client.stop()
    seen = {name for name, _ in events}
    assert seen == set(EVENTS)
    for name, fields in events:
        assert tuple(fields) == ("client", *EVENTS[name]), name
        assert fields["client"] == "scripted"
    transitions = [(f["from"], f["to"], f["epoch"]) for n, f in events if n == "jackstay.connection.transition"]
    assert transitions == [
        ("new", "starting", 1),
        ("starting", "initializing", 1),
        ("initializing", "ready", 1),
        ("ready", "backoff", 1),
        ("backoff", "starting", 2),
        ("starting", "initializing", 2),
        ("initializing", "ready", 2),
        ("ready", "closing", 2),
        ("closing", "closed", 2),
    ]
    assert dict(events)["jackstay.child.exit"] == {"client": "scripted", "code": 0, "signal": 9}


@on_fake_clock
async def test_the_events_of_one_request_belong_together() -> None:
    target = ScriptedPeer()
    await target.open()
    client = Client(target.pair.client, Settings(name="c"), rng=random.Random(7))
    await client.open()
    before = client.submit("ping")
    events = listen(client)
    await before
    assert events == [], "there was no listener when it started"
    await client.ping()
    (_, start), (_, stop) = events
    assert start.items() <= stop.items()
    assert start["corr_id"] == stop["corr_id"]
    assert len(start["corr_id"]) == 16
    assert stop["duration_ns"] > 0
    events.clear()
    await client.stop()
    with pytest.raises(ClosedError):
        await client.ping()
    with pytest.raises(ClosedError):
        await client.submit("tools/list")
    (first, refused), (second, end) = events[-2:]
    assert (first, second) == ("jackstay.request.start", "jackstay.request.exception")
    assert (refused["id"], end["may_have_run"], end["corr_id"]) == (0, False, refused["corr_id"])
    assert isinstance(end["reason"], ClosedError)
    await target.close()


@on_fake_clock
async def test_without_listeners_an_event_costs_one_attribute_access() -> None:
    async with opened() as (client, _):
        accesses: list[str] = []

        class Watched:
            def __getattr__(self, name: str) -> Any:
                accesses.append(name)
                return ()

        connection = client._requests.connection
        connection.telemetry, before = Watched(), connection.telemetry  # type: ignore[assignment]
        await client.submit("ping")
        connection.telemetry = before
        assert accesses == ["listeners", "listeners"], "one at its start, one at its end"


@on_fake_clock
async def test_the_rng_is_injected() -> None:
    names = []
    for _ in range(2):
        peer = ScriptedPeer()
        await peer.open()
        client = Client(peer.pair.client, Settings(name="c"), rng=random.Random(7))
        events = listen(client)
        await client.open()
        await client.ping()
        names.append(dict(events)["jackstay.request.start"]["corr_id"])
        await client.stop()
        await peer.close()
    assert names[0] == names[1]


@on_fake_clock
async def test_a_cancelled_call_ends_with_an_exception_event() -> None:
    async with opened() as (client, peer):
        events = listen(client)
        written = client.submit("tools/call", {"name": "a"})
        await peer.expect("tools/call")
        peer.pair.client.stall()
        queued = client.submit("tools/call", {"name": "b"})
        written.cancel()
        queued.cancel()
        await asyncio.sleep(0)
        ends = [fields for name, fields in events if name == "jackstay.request.exception"]
        assert [fields["may_have_run"] for fields in ends] == [True, False]
        assert all(isinstance(fields["reason"], asyncio.CancelledError) for fields in ends)
        peer.pair.client.resume()


@on_fake_clock
async def test_a_listener_may_use_the_client_and_frames_keep_their_order() -> None:
    async with peered() as (client, peer):
        client.roots.set(["file:///a"])
        versions: list[str] = []
        calls: list[Any] = []

        def listener(name: str, fields: Any) -> None:
            if name == "jackstay.connection.transition" and fields["to"] == "ready":
                versions.append(client.protocol_version)
                client.roots.set(["file:///b"])
                calls.append(client.submit("ping"))

        client.on_event(listener)
        await client.open()
        await calls[0]
        await client.stop()
        assert versions == [HANDSHAKE]
        methods = [message.get("method") for message in peer.received]
        assert methods == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "ping",
        ]


@on_fake_clock
async def test_a_notification_that_a_listener_makes_too_late_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, _):
        connection = client._requests.connection

        def late(name: str, fields: Any) -> None:
            if name == "jackstay.connection.transition" and fields["to"] == "closed":
                connection.notify("notifications/vendor", b"{}")

        client.on_event(late)
        with pytest.raises(UsageError):
            connection.notify("x" * 100_000, b"{}")
        await client.stop()
        assert "the connection is closed" in caplog.text
