"""What a user holds, listened to: what handlers hear, in which order, and what becomes of a handler that fails."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client, Notification
from jackstay.errors import (
    McpError,
)
from jackstay.testing import on_fake_clock
from scripted.peer import STATELESS, opened, said

# --- listening --------------------------------------------------------------------------------------------------------


async def told(client: Client) -> None:
    await client.ping()
    for _ in range(4):
        await asyncio.sleep(0)


@on_fake_clock
async def test_notifications_arrive_in_order_one_at_a_time_and_of_some_kinds_only_once() -> None:
    async with opened() as (client, peer):
        heard: list[str] = []
        running = 0

        @client.on_notification
        async def note(notification: Notification) -> None:
            nonlocal running
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            heard.append(str(notification.params.get("data", notification.method.split("/")[1])))
            running -= 1

        for data in ("one", "two"):
            peer.notify("notifications/message", level="info", data=data)
        for _ in range(3):
            peer.notify("notifications/tools/list_changed")
        peer.send({"jsonrpc": "2.0", "method": "notifications/vendor"})
        await told(client)
        await asyncio.sleep(1)
        assert heard == ["one", "two", "tools", "vendor"]


@on_fake_clock
async def test_a_handler_that_raises_is_logged_and_the_next_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        heard: list[Notification] = []

        def fail(notification: Notification) -> None:
            raise RuntimeError("mine")

        client.on_notification(fail)
        client.on_notification(heard.append)
        with caplog.at_level(logging.ERROR, "jackstay.client"):
            peer.notify("notifications/message", level="info", data="x")
            await told(client)
        assert "mine" in caplog.text
        assert [each.method for each in heard] == ["notifications/message"]
        assert client.state == "ready"


@on_fake_clock
async def test_notifications_that_cannot_be_read_are_logged_and_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as (client, peer):
        heard: list[Notification] = []
        client.on_notification(heard.append)
        peer.send({"jsonrpc": "2.0", "method": "notifications/vendor", "params": [1]})
        peer.notify("notifications/resources/updated")
        peer.notify("notifications/message", level="info", data="x")
        await told(client)
        assert [each.method for each in heard] == ["notifications/message"]
        assert caplog.text.count("cannot be read") == 2


@on_fake_clock
async def test_a_handler_that_awaits_a_call_gets_its_answer() -> None:
    async with opened() as (client, peer):
        peer.on["tools/call"] = said("inside")
        got: list[str] = []

        async def call(notification: Notification) -> None:
            got.append((await client.tools.call("x")).text)

        client.on_notification(call)
        peer.notify("notifications/message", level="info", data="x")
        await told(client)
        await peer.expect("tools/call")
        await told(client)
        assert got == ["inside"]


@on_fake_clock
async def test_progress_handlers_that_raise_harm_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as (client, peer):

        def fail(progress: object) -> None:
            raise RuntimeError("mine")

        call = client.submit("tools/call", {"name": "x"}, on_progress=fail)
        await peer.expect("tools/call")
        peer.notify("notifications/progress", progressToken=call.id, progress=1)
        peer.notify("notifications/progress", progressToken=call.id, progress="half")
        await told(client)
        peer.answer(call.id, said("done"))
        assert (await call)["content"]


@on_fake_clock
async def test_a_handler_for_all_progress_hears_of_every_call_until_it_is_given_up() -> None:
    async with opened() as (client, peer):
        heard: list[Any] = []
        events: list[str] = []
        leave = client.on_event(lambda name, fields: events.append(name))

        @client.on_progress
        async def note(progress: Any) -> None:
            heard.append(progress.progress)

        first = client.submit("tools/call", {"name": "a"})
        second = client.submit("tools/call", {"name": "b"}, on_progress=heard.append)
        await peer.expect("tools/call", 2)
        peer.notify("notifications/progress", progressToken=first.id, progress=1)
        peer.notify("notifications/progress", progressToken=second.id, progress=2)
        await told(client)
        assert [getattr(each, "progress", each) for each in heard] == [1, 2, 2]
        peer.notify("notifications/progress", progressToken=first.id, progress=3)
        peer.refuse(first.id, -1)
        with pytest.raises(McpError):
            await first
        await told(client)
        assert len(heard) == 3, "of a call that failed nobody wants to hear"
        second.cancel()
        leave()
        assert "jackstay.request.start" in events


@on_fake_clock
async def test_what_a_server_says_of_subscriptions_is_taken_as_it_comes(
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
        await told(client)
        assert seen == ["notifications/resources/updated"]
        assert caplog.text.count("cannot be read") == 2
        client.trace_with(None)


@on_fake_clock
async def test_a_resource_that_changed_reaches_its_handler_without_any_other() -> None:
    async with opened() as (client, peer):
        peer.on["resources/subscribe"] = {}
        changes: list[str] = []
        await client.resources.subscribe("file:///a", changes.append)
        peer.notify("notifications/resources/updated", uri="file:///a")
        await told(client)
        assert changes == ["file:///a"]
