"""Notifications from a server reach only the clients they are for."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client, Notification
from jackstay.testing import on_fake_clock
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between

LEVEL = "io.modelcontextprotocol/logLevel"

INVALID: list[tuple[str, dict[str, Any]]] = [
    ("notifications/resources/updated", {"uri": 5}),
    ("notifications/message", {"level": []}),
    ("notifications/tools/list_changed", {"_meta": 5}),
    ("notifications/elicitation/complete", {"elicitationId": {}}),
    ("notifications/prompts/list_changed", {"_meta": {"a": "io.modelcontextprotocol/subscriptionId"}}),
]


def notifications_of(client: Client) -> list[Notification]:
    """The notifications that this client receives from now on."""
    notifications: list[Notification] = []
    client.on_notification(notifications.append)
    return notifications


async def settled() -> None:
    """Wait until all messages have arrived."""
    await asyncio.sleep(0.1)


def log(harness: Between, text: str, level: str = "info", **more: Any) -> None:
    harness.peer.notify("notifications/message", level=level, data=text, **more)


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_list_changes_are_sent_to_every_client(client_version: str, server_version: str) -> None:
    async with between(server_version) as harness:
        notified = [notifications_of(await harness.join(client_version)) for _ in range(2)]
        await settled()
        params: dict[str, Any] = {"extra": 1}
        if server_version == STATELESS:
            listen = harness.peer.got("subscriptions/listen")[0]
            params["_meta"] = {"io.modelcontextprotocol/subscriptionId": listen.id, "own": 2}
        harness.peer.notify("notifications/prompts/list_changed", **params)
        await settled()
        for received in notified:
            assert [each.method for each in received] == ["notifications/prompts/list_changed"]
            assert received[0].params["extra"] == 1, "other members are kept"
            meta = received[0].params.get("_meta", {})
            if client_version == HANDSHAKE:
                assert "io.modelcontextprotocol/subscriptionId" not in meta, (
                    "it identifies the subscription of the proxy"
                )
            assert meta.get("own") == (2 if server_version == STATELESS else None)


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_log_message_goes_to_the_client_whose_call_is_in_flight(
    client_version: str, server_version: str
) -> None:
    async with between(server_version) as harness:
        client, other = await harness.join(client_version), await harness.join()
        own, others = notifications_of(client), notifications_of(other)
        call = client.submit("tools/call", {"name": "t"}, meta={LEVEL: "info"})
        received = await harness.peer.expect("tools/call")
        log(harness, "message", logger="x", unknownMember=1)
        await settled()
        received.respond({"content": []})
        await call
        assert [message.params["data"] for message in own] == ["message"]
        assert own[0].params["unknownMember"] == 1
        assert others == []


@on_fake_clock
async def test_a_log_message_during_calls_of_several_clients_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may contain data of one client."""
    async with between() as harness:
        clients = [await harness.join(version) for version in ERAS]
        notified = [notifications_of(client) for client in clients]
        calls = [client.submit("tools/call", {"name": "t"}, meta={LEVEL: "debug"}) for client in clients]
        received = [await harness.peer.expect("tools/call") for _ in calls]
        with caplog.at_level(logging.WARNING, "jackstay.proxy"):
            for _ in range(3):
                log(harness, "ambiguous")
            await settled()
        assert notified == [[], []]
        assert caplog.text.count("dropped notifications/message") == 2, "logged for the 1st, 2nd, 4th, ..."
        for each in received:
            each.respond({"content": []})
        await asyncio.gather(*calls)


@on_fake_clock
async def test_a_log_message_outside_any_call_goes_to_all_handshake_clients() -> None:
    async with between() as harness:
        one, two = notifications_of(await harness.join()), notifications_of(await harness.join())
        three = notifications_of(await harness.join(STATELESS))
        log(harness, "hello")
        await settled()
        assert [len(received) for received in (one, two, three)] == [1, 1, 0]


@on_fake_clock
async def test_a_log_message_after_a_response_never_reaches_another_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Background jobs go on after the response, and may log data of one client."""
    async with between() as harness:
        clients = [await harness.join(), await harness.join()]
        own, others = (notifications_of(client) for client in clients)
        harness.peer.on["tools/call"] = {"content": []}
        await clients[0].tools.call("t")
        log(harness, "AFTER secret of the first")
        await settled()
        assert [len(own), len(others)] == [1, 0], "no other client was served yet"
        await clients[1].tools.call("t")
        log(harness, "AFTER secret of one of them")
        await asyncio.sleep(3600)
        log(harness, "an hour later")
        await settled()
        assert [len(own), len(others)] == [1, 0]
        assert "--per-client" in caplog.text


@on_fake_clock
async def test_log_messages_of_a_cancelled_call_do_not_reach_other_clients() -> None:
    async with between() as harness:
        client, other = await harness.join(), await harness.join()
        own, others = notifications_of(client), notifications_of(other)
        client.submit("tools/call", {"name": "t"}).cancel()
        call = client.submit("tools/call", {"name": "t"})
        await harness.peer.expect("tools/call")
        call.cancel()
        await harness.peer.expect("notifications/cancelled")
        log(harness, "still at it")
        await settled()
        assert others == []
        assert len(own) == 1


@pytest.mark.parametrize(("level", "count"), [("debug", 1), ("warning", 0), (None, 1)])
@on_fake_clock
async def test_log_level_of_a_handshake_client(level: Any, count: int) -> None:
    async with between() as harness:
        harness.peer.on["logging/setLevel"] = {}
        client = await harness.join()
        notified = notifications_of(client)
        if level is not None:
            await client.logging.set_level(level)
        log(harness, "outside")
        call = client.submit("tools/call", {"name": "t"})
        received = await harness.peer.expect("tools/call")
        log(harness, "inside")
        log(harness, "loud", "alert")
        log(harness, "odd", "shrill")
        await settled()
        received.respond({"content": []})
        await call
        assert [message.params["data"] for message in notified] == ["outside", "inside"] * count + ["loud", "odd"]


@pytest.mark.parametrize(("level", "count"), [("info", 1), ("error", 0), (None, 0)])
@on_fake_clock
async def test_log_level_of_a_stateless_request(level: Any, count: int) -> None:
    """2026-07-28: without a level no log message may be sent."""
    async with between() as harness:
        client = await harness.join(STATELESS)
        notified = notifications_of(client)
        call = client.submit("tools/call", {"name": "t"}, meta={} if level is None else {LEVEL: level})
        received = await harness.peer.expect("tools/call")
        log(harness, "inside")
        await settled()
        received.respond({"content": []})
        await call
        assert len(notified) == count


@on_fake_clock
async def test_an_unknown_notification_is_routed_like_a_log_message() -> None:
    async with between() as harness:
        notified = notifications_of(await harness.join())
        harness.peer.notify("notifications/of/its/own", a=1)
        await settled()
        assert [(message.method, message.params) for message in notified] == [("notifications/of/its/own", {"a": 1})]


@on_fake_clock
async def test_members_of_other_notifications_are_not_checked() -> None:
    async with between() as harness:
        notified = notifications_of(await harness.join())
        harness.peer.notify("notifications/message", level="info", data=1, uri=5)
        await settled()
        assert [message.params["uri"] for message in notified] == [5]


@on_fake_clock
async def test_invalid_notifications_are_ignored() -> None:
    async with between() as harness:
        harness.peer.on |= {"logging/setLevel": {}, "tools/list": {"tools": []}}
        for version in ERAS:
            notifications_of(await harness.join(version))
        client = await harness.join()
        await client.logging.set_level("info")
        await settled()
        for method, params in INVALID:
            harness.peer.notify(method, **params)
            await settled()
            assert await client.tools.list() == [], method
        assert harness.peer.connections == 1


@on_fake_clock
async def test_a_notification_that_is_too_large_for_the_client_is_dropped() -> None:
    async with between(settings={"max_frame_bytes": 33_554_432}) as harness:
        client = await harness.join()
        notified = notifications_of(client)
        log(harness, "x" * 16_777_200)
        log(harness, "small")
        await asyncio.sleep(1)
        assert [message.params["data"] for message in notified] == ["small"]


@on_fake_clock
async def test_an_unknown_list_change_does_not_affect_others() -> None:
    """It is forwarded like an unknown notification."""
    async with between() as harness:
        notified = notifications_of(await harness.join())
        for name in ("made/up", "tools"):
            harness.peer.notify(f"notifications/{name}/list_changed")
        await settled()
        assert {message.method for message in notified} == {
            "notifications/made/up/list_changed",
            "notifications/tools/list_changed",
        }
