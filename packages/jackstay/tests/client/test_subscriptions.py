"""Subscriptions: one API in both eras, restored after every reconnect, with a callback for their end."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.errors import CapabilityError, McpError, ShutdownError, StateError, TimeoutError
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock
from scripted.peer import ERAS, HANDSHAKE, STATELESS, opened, peered

URI = "file:///a"
ID = "io.modelcontextprotocol/subscriptionId"
OPENS = {HANDSHAKE: "resources/subscribe", STATELESS: "subscriptions/listen"}


def accept_subscriptions(peer: ScriptedPeer, honours: bool = True) -> None:
    """Let the peer accept subscriptions in either era."""
    peer.on["resources/subscribe"] = peer.on["resources/unsubscribe"] = {}

    def listen(params: dict[str, Any]) -> None:
        honoured = params["notifications"] if honours else {}
        id = peer.got("subscriptions/listen")[-1]["id"]
        peer.notify("notifications/subscriptions/acknowledged", notifications=honoured, _meta={ID: id})

    peer.on["subscriptions/listen"] = listen


def updated(peer: ScriptedPeer, uri: str = URI, **meta: Any) -> None:
    params: dict[str, Any] = {"uri": uri} | ({"_meta": meta} if meta else {})
    peer.notify("notifications/resources/updated", **params)


async def delivered(client: Client) -> None:
    """Wait until everything that was sent before has been handled."""
    await client.ping()
    for _ in range(4):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_updates_reach_the_handler_and_are_restored_after_a_reconnect(version: str) -> None:
    async with opened(version) as (client, peer):
        accept_subscriptions(peer)
        changes: list[str] = []
        seen: list[str] = []

        async def note(uri: str) -> None:
            changes.append(uri)

        client.on_notification(lambda notification: seen.append(notification.method))
        await client.resources.subscribe(URI, note)
        updated(peer)
        await delivered(client)
        assert changes == [URI]
        assert seen == ["notifications/resources/updated"]
        before = len(peer.got(OPENS[version]))
        peer.crash()
        await peer.until(lambda: len(peer.got(OPENS[version])) > before)
        assert peer.got(OPENS[version])[-1]["params"].get("uri", URI) == URI
        await client.ready(60)
        updated(peer)
        await delivered(client)
        assert changes == [URI, URI]
        await client.resources.unsubscribe(URI)
        updated(peer)
        await delivered(client)
        assert changes == [URI, URI]
        if version == HANDSHAKE:
            assert peer.got("resources/unsubscribe")[0]["params"] == {"uri": URI}
        else:
            listens = [
                m["id"]
                for m in peer.got("subscriptions/listen")
                if "resourceSubscriptions" in m["params"]["notifications"]
            ]
            assert [m["params"]["requestId"] for m in peer.got("notifications/cancelled")] == listens[-1:]


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_subscribe_requires_the_capability(version: str) -> None:
    async with opened(version, server_capabilities={"resources": {}}) as (client, peer):
        with pytest.raises(CapabilityError):
            await client.resources.subscribe(URI)
        assert peer.got(OPENS[version]) == []


@on_fake_clock
async def test_a_refused_subscription_is_an_error_and_forgotten_in_both_eras() -> None:
    def refuse(params: Any) -> None:
        raise ScriptedError(-32602)

    for version in ERAS:
        async with opened(version) as (client, peer):
            peer.on[OPENS[version]] = refuse
            with pytest.raises(McpError):
                await client.resources.subscribe(URI, print)
            peer.crash()
            await peer.until(lambda: peer.connections == 2)
            await client.ready(60)
            await delivered(client)
            assert len(peer.got(OPENS[version])) == 1
    async with opened(STATELESS) as (client, peer):
        accept_subscriptions(peer, honours=False)
        with pytest.raises(CapabilityError):
            await client.resources.subscribe(URI)


@on_fake_clock
async def test_a_missing_acknowledgement_is_a_timeout() -> None:
    async with opened(STATELESS) as (client, peer):
        with pytest.raises(TimeoutError) as caught:
            await client.resources.subscribe(URI, timeout=3)
        assert caught.value.sent
        await peer.expect("notifications/cancelled")
        with pytest.raises(TimeoutError):
            await client.resources.subscribe(URI)
        assert asyncio.get_running_loop().time() == pytest.approx(33, abs=0.1)


@on_fake_clock
async def test_subscribing_twice_shares_one_subscription_and_the_last_handler_wins() -> None:
    for version in ERAS:
        async with opened(version) as (client, peer):
            accept_subscriptions(peer)
            first: list[str] = []
            second: list[str] = []
            await asyncio.gather(
                client.resources.subscribe(URI, first.append), client.resources.subscribe(URI, second.append)
            )
            await client.resources.subscribe(URI, second.append)
            updated(peer)
            await delivered(client)
            assert (first, second) == ([], [URI])
            assert len(peer.got(OPENS[version])) == 1


@on_fake_clock
async def test_waiters_of_a_cancelled_subscription_get_an_error() -> None:
    async with opened(STATELESS) as (client, peer):
        first = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen")
        second = asyncio.ensure_future(client.resources.subscribe(URI))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(StateError, match="was cancelled"):
            await second
        await peer.expect("notifications/cancelled")
        third = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen", 2)
        await client.resources.unsubscribe(URI)
        with pytest.raises(StateError, match="was called while subscribing"):
            await third


@on_fake_clock
async def test_unsubscribing_before_the_response_fails_subscribe_and_restores_nothing() -> None:
    async with opened(HANDSHAKE) as (client, peer):
        waiting = asyncio.ensure_future(client.resources.subscribe(URI, print))
        subscribing = await peer.expect("resources/subscribe")
        unsubscription = asyncio.ensure_future(client.resources.unsubscribe(URI))
        unsubscribing = await peer.expect("resources/unsubscribe")
        subscribing.respond({})
        unsubscribing.respond({})
        await unsubscription
        with pytest.raises(StateError, match="was called while subscribing"):
            await waiting
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        await client.ready()
        await client.ping()
        assert len(peer.got("resources/subscribe")) == 1


@on_fake_clock
async def test_stop_fails_pending_subscriptions_at_once() -> None:
    async with opened(STATELESS) as (client, peer):
        waiting = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen")
        await client.stop()
        with pytest.raises(ShutdownError):
            await waiting
        assert asyncio.get_running_loop().time() < 1


@on_fake_clock
async def test_a_subscription_that_the_server_ends_calls_on_end_and_is_restored_on_reconnect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(STATELESS) as (client, peer):
        accept_subscriptions(peer)
        ends: list[McpError | None] = []
        await client.resources.subscribe(URI, on_end=ends.append)
        await client.resources.subscribe("file:///b")
        one, two = (message["id"] for message in peer.got("subscriptions/listen"))
        with caplog.at_level(logging.WARNING, "jackstay.client"):
            peer.notify("notifications/cancelled", requestId=one)
            peer.respond_error(two, -32603, "out of order")
            await delivered(client)
        assert ends == [None]
        assert "no reason given" in caplog.text
        assert "out of order" in caplog.text
        peer.crash()
        await peer.expect("subscriptions/listen", 4)


@on_fake_clock
async def test_a_handler_of_the_end_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(error: object) -> None:
        raise RuntimeError("handler error")

    async with opened(STATELESS) as (client, peer):
        accept_subscriptions(peer)
        await client.resources.subscribe(URI, on_end=fail)
        peer.respond(peer.got("subscriptions/listen")[0]["id"], {"resultType": "complete"})
        await delivered(client)
        assert "handler error" in caplog.text


@on_fake_clock
async def test_an_update_of_a_sub_resource_reaches_the_subscriber_of_its_parent() -> None:
    async with opened(STATELESS) as (client, peer):
        accept_subscriptions(peer)
        whole: list[str] = []
        other: list[str] = []
        await client.resources.subscribe("file:///dir/", whole.append)
        await client.resources.subscribe("db://x", other.append)
        await client.resources.subscribe("db://y")
        id = peer.got("subscriptions/listen")[1]["id"]
        updated(peer, "file:///dir/a")
        updated(peer, "db://xy")
        updated(peer, "db://y/1")
        updated(peer, "row:7", **{ID: id})
        updated(peer, "row:8", **{ID: 999})
        updated(peer, "row:9", **{ID: []})
        await delivered(client)
        assert whole == ["file:///dir/a"]
        assert other == ["row:7"]


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_before_ready_it_waits_or_refuses_as_every_call_does(version: str) -> None:
    async with peered(version) as (client, peer):
        accept_subscriptions(peer)
        with pytest.raises(StateError, match="not open"):
            await client.resources.subscribe(URI)
        await client.open(wait=False)
        with pytest.raises(StateError):
            await client.resources.subscribe(URI, wait_for_ready=False)
        await client.resources.subscribe(URI)
        assert len(peer.got(OPENS[version])) == 1
        peer.reopens = False
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        with pytest.raises(TimeoutError) as caught:
            await client.resources.subscribe("file:///b", timeout=2)
        assert not caught.value.sent
        await client.resources.unsubscribe(URI)
        await client.resources.unsubscribe("file:///never")
        await client.stop()
        with pytest.raises(McpError, match="stopped"):
            await client.resources.subscribe(URI)


# --- lists ------------------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_list_changes_of_a_stateless_server_are_subscribed_for_a_handler() -> None:
    async with peered(STATELESS, server_capabilities={"tools": {"listChanged": True}, "prompts": {}}) as (client, peer):
        changes: list[str] = []
        client.on_notification(lambda notification: changes.append(notification.method))
        await client.open()
        listen = await peer.expect("subscriptions/listen")
        assert listen["params"]["notifications"] == {"toolsListChanged": True}
        peer.notify("notifications/subscriptions/acknowledged", notifications={}, _meta={ID: listen["id"]})
        peer.notify("notifications/tools/list_changed", _meta={ID: listen["id"]})
        await delivered(client)
        assert changes == ["notifications/tools/list_changed"]
        peer.crash()
        await peer.expect("subscriptions/listen", 2)
        peer.respond(peer.got("subscriptions/listen")[1]["id"], {"resultType": "complete"})
        await delivered(client)


@on_fake_clock
async def test_a_list_capability_that_appears_after_a_restart_is_subscribed_once() -> None:
    async with peered(STATELESS, server_capabilities={"tools": {}}) as (client, peer):
        client.on_notification(print)
        await client.open()
        await client.ping()
        assert peer.got("subscriptions/listen") == []
        peer.capabilities = {"tools": {"listChanged": True}}
        peer.crash()
        await peer.expect("subscriptions/listen")
        peer.crash()
        await peer.expect("subscriptions/listen", 2)
        await client.ready(60)
        await delivered(client)
        assert len(peer.got("subscriptions/listen")) == 2


@on_fake_clock
async def test_list_changes_are_not_subscribed_without_a_handler_or_the_capability() -> None:
    async with opened(STATELESS) as (client, peer):
        await client.ping()
        assert peer.got("subscriptions/listen") == []
        client.on_notification(print)
        client.on_notification(print)
        await peer.expect("subscriptions/listen")
        assert len(peer.got("subscriptions/listen")) == 1
    for version, capabilities in ((STATELESS, {"tools": {"listChanged": False}}), (HANDSHAKE, None)):
        async with peered(version, server_capabilities=capabilities) as (client, peer):
            client.on_notification(print)
            await client.open()
            await client.ping()
            assert peer.got("subscriptions/listen") == []


@on_fake_clock
async def test_a_listener_that_adds_a_handler_as_the_client_becomes_ready_opens_no_second_subscription() -> None:
    async with peered(STATELESS) as (client, peer):
        added: list[Any] = []

        def listener(name: str, fields: Any) -> None:
            if name == "jackstay.connection.transition" and fields["to"] == "ready":
                added.append(client.on_notification(print))

        client.on_event(listener)
        client.on_notification(print)
        await client.open()
        await peer.expect("subscriptions/listen")
        await client.ping()
        assert len(added) == 1
        assert len(peer.got("subscriptions/listen")) == 1


@on_fake_clock
async def test_an_invalid_acknowledgement_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(STATELESS) as (client, peer):
        peer.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
        peer.notify("notifications/subscriptions/acknowledged", notifications={}, _meta={ID: "theirs"})
        peer.notify("notifications/subscriptions/acknowledged", notifications={})
        await delivered(client)
        assert "invalid notifications/subscriptions/acknowledged" in caplog.text


@on_fake_clock
async def test_a_handler_of_notifications_may_subscribe() -> None:
    async with opened(STATELESS) as (client, peer):
        accept_subscriptions(peer)
        done = asyncio.Event()

        async def follow(notification: object) -> None:
            if not done.is_set():
                await client.resources.subscribe(URI, timeout=1)
                done.set()

        client.on_notification(follow)
        peer.notify("notifications/message", level="info", data="x")
        await done.wait()
