"""Handlers of a client: what they receive, in which order, and exceptions of handlers."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client, Notification
from jackstay.errors import (
    McpError,
)
from jackstay.testing import on_fake_clock
from scripted.peer import STATELESS, opened, text_result


async def delivered(client: Client) -> None:
    """Wait until everything that was sent before has been handled."""
    await client.ping()
    for _ in range(4):
        await asyncio.sleep(0)


@on_fake_clock
async def test_notifications_arrive_in_order_one_at_a_time_and_of_some_kinds_only_once() -> None:
    async with opened() as (client, peer):
        received: list[str] = []
        running = 0

        @client.on_notification
        async def note(notification: Notification) -> None:
            nonlocal running
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            received.append(str(notification.params.get("data", notification.method.split("/")[1])))
            running -= 1

        for data in ("one", "two"):
            peer.notify("notifications/message", level="info", data=data)
        for _ in range(3):
            peer.notify("notifications/tools/list_changed")
        peer.send({"jsonrpc": "2.0", "method": "notifications/vendor"})
        await delivered(client)
        await asyncio.sleep(1)
        assert received == ["one", "two", "tools", "vendor"]


@on_fake_clock
async def test_a_handler_that_raises_is_logged_and_the_next_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        received: list[Notification] = []

        def fail(notification: Notification) -> None:
            raise RuntimeError("handler error")

        client.on_notification(fail)
        client.on_notification(received.append)
        with caplog.at_level(logging.ERROR, "jackstay.client"):
            peer.notify("notifications/message", level="info", data="x")
            await delivered(client)
        assert "handler error" in caplog.text
        assert [notification.method for notification in received] == ["notifications/message"]
        assert client.state == "ready"


@on_fake_clock
async def test_invalid_notifications_are_logged_and_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        received: list[Notification] = []
        client.on_notification(received.append)
        peer.send({"jsonrpc": "2.0", "method": "notifications/vendor", "params": [1]})
        peer.notify("notifications/resources/updated")
        peer.notify("notifications/message", level="info", data="x")
        await delivered(client)
        assert [notification.method for notification in received] == ["notifications/message"]
        assert caplog.text.count("invalid notifications/") == 2


@on_fake_clock
async def test_a_handler_that_awaits_a_call_gets_its_result() -> None:
    async with opened() as (client, peer):
        peer.on["tools/call"] = text_result("inside")
        got: list[str] = []

        async def call(notification: Notification) -> None:
            got.append((await client.tools.call("x")).text)

        client.on_notification(call)
        peer.notify("notifications/message", level="info", data="x")
        await delivered(client)
        await peer.expect("tools/call")
        await delivered(client)
        assert got == ["inside"]


@on_fake_clock
async def test_exceptions_of_progress_handlers_are_isolated(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as (client, peer):

        def fail(progress: object) -> None:
            raise RuntimeError("handler error")

        call = client.submit("tools/call", {"name": "x"}, on_progress=fail)
        await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken=call.id, progress=1)
        peer.notify("notifications/progress", progressToken=call.id, progress="half")
        await delivered(client)
        peer.respond(call.id, text_result("done"))
        assert (await call)["content"]


@on_fake_clock
async def test_a_global_progress_handler_runs_for_every_open_call() -> None:
    async with opened() as (client, peer):
        received: list[Any] = []
        events: list[str] = []
        unsubscribe = client.on_event(lambda name, fields: events.append(name))

        @client.on_progress
        async def note(progress: Any) -> None:
            received.append(progress.progress)

        first = client.submit("tools/call", {"name": "a"})
        second = client.submit("tools/call", {"name": "b"}, on_progress=received.append)
        await peer.expect("tools/call", 2)
        peer.notify("notifications/progress", progressToken=first.id, progress=1)
        peer.notify("notifications/progress", progressToken=second.id, progress=2)
        await delivered(client)
        assert [getattr(report, "progress", report) for report in received] == [1, 2, 2]
        peer.notify("notifications/progress", progressToken=first.id, progress=3)
        peer.respond_error(first.id, -1)
        with pytest.raises(McpError):
            await first
        await delivered(client)
        assert len(received) == 3, "progress of a failed call is dropped"
        second.cancel()
        unsubscribe()
        assert "jackstay.request.start" in events


@on_fake_clock
async def test_acknowledgements_are_processed_as_they_arrive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(STATELESS) as (client, peer):
        seen: list[str] = []
        client.on_notification(lambda notification: seen.append(notification.method))
        listen = await peer.expect("subscriptions/listen")
        meta = {"io.modelcontextprotocol/subscriptionId": listen["id"]}
        peer.notify("notifications/subscriptions/acknowledged", notifications={}, _meta=meta)
        peer.notify("notifications/subscriptions/acknowledged", notifications=1)
        peer.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
        peer.notify("notifications/resources/updated", uri="file:///a")
        await delivered(client)
        assert seen == ["notifications/resources/updated"]
        assert caplog.text.count("invalid notifications/") == 2
        client.trace_with(None)


@on_fake_clock
async def test_an_update_reaches_its_handler_without_a_notification_handler() -> None:
    async with opened() as (client, peer):
        peer.on["resources/subscribe"] = {}
        changes: list[str] = []
        await client.resources.subscribe("file:///a", changes.append)
        peer.notify("notifications/resources/updated", uri="file:///a")
        await delivered(client)
        assert changes == ["file:///a"]
