"""Subscriptions: one API in both eras, opened again after every reconnect, and honest about their end."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.errors import CapabilityError, McpError, ShutdownError, StateError, TimeoutError
from jackstay.testing import Refusal, ScriptedPeer, on_fake_clock
from scripted.peer import ERAS, HANDSHAKE, STATELESS, opened, peered

URI = "file:///a"
ID = "io.modelcontextprotocol/subscriptionId"
OPENS = {HANDSHAKE: "resources/subscribe", STATELESS: "subscriptions/listen"}


def listening(peer: ScriptedPeer, honours: bool = True) -> None:
    """Let the peer take subscriptions, in either era."""
    peer.on["resources/subscribe"] = peer.on["resources/unsubscribe"] = {}

    def listen(params: dict[str, Any]) -> None:
        honoured = params["notifications"] if honours else {}
        id = peer.got("subscriptions/listen")[-1]["id"]
        peer.notify("notifications/subscriptions/acknowledged", notifications=honoured, _meta={ID: id})

    peer.on["subscriptions/listen"] = listen


def updated(peer: ScriptedPeer, uri: str = URI, **meta: Any) -> None:
    params: dict[str, Any] = {"uri": uri} | ({"_meta": meta} if meta else {})
    peer.notify("notifications/resources/updated", **params)


async def heard(client: Client) -> None:
    """Wait until everything that was sent before has been handled."""
    await client.ping()
    for _ in range(4):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_updates_reach_the_handler_and_are_asked_for_again_after_a_loss(version: str) -> None:
    async with opened(version) as (client, peer):
        listening(peer)
        changes: list[str] = []
        seen: list[str] = []

        async def note(uri: str) -> None:
            changes.append(uri)

        client.on_notification(lambda notification: seen.append(notification.method))
        await client.resources.subscribe(URI, note)
        updated(peer)
        await heard(client)
        assert changes == [URI]
        assert seen == ["notifications/resources/updated"]
        before = len(peer.got(OPENS[version]))
        peer.die()
        await peer.until(lambda: len(peer.got(OPENS[version])) > before)
        assert peer.got(OPENS[version])[-1]["params"].get("uri", URI) == URI
        await client.ready(60)
        updated(peer)
        await heard(client)
        assert changes == [URI, URI]
        await client.resources.unsubscribe(URI)
        updated(peer)
        await heard(client)
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
async def test_a_server_without_subscriptions_is_not_asked(version: str) -> None:
    async with opened(version, offers={"resources": {}}) as (client, peer):
        with pytest.raises(CapabilityError):
            await client.resources.subscribe(URI)
        assert peer.got(OPENS[version]) == []


@on_fake_clock
async def test_a_refused_subscription_is_an_error_and_forgotten_in_both_eras() -> None:
    def refuse(params: Any) -> None:
        raise Refusal(-32602)

    for version in ERAS:
        async with opened(version) as (client, peer):
            peer.on[OPENS[version]] = refuse
            with pytest.raises(McpError):
                await client.resources.subscribe(URI, print)
            peer.die()
            await peer.until(lambda: peer.connections == 2)  # waited for here
            await client.ready(60)
            await heard(client)
            assert len(peer.got(OPENS[version])) == 1
    async with opened(STATELESS) as (client, peer):
        listening(peer, honours=False)
        with pytest.raises(CapabilityError):
            await client.resources.subscribe(URI)


@on_fake_clock
async def test_a_server_that_never_says_that_it_listens_is_a_timeout() -> None:
    async with opened(STATELESS) as (client, peer):
        with pytest.raises(TimeoutError) as caught:
            await client.resources.subscribe(URI, timeout=3)
        assert caught.value.sent
        await peer.expect("notifications/cancelled")
        with pytest.raises(TimeoutError):
            await client.resources.subscribe(URI)
        assert asyncio.get_running_loop().time() == pytest.approx(33, abs=0.1)


@on_fake_clock
async def test_two_who_subscribe_to_the_same_share_one_and_the_last_handler_counts() -> None:
    for version in ERAS:
        async with opened(version) as (client, peer):
            listening(peer)
            first: list[str] = []
            second: list[str] = []
            await asyncio.gather(
                client.resources.subscribe(URI, first.append), client.resources.subscribe(URI, second.append)
            )
            await client.resources.subscribe(URI, second.append)
            updated(peer)
            await heard(client)
            assert (first, second) == ([], [URI])
            assert len(peer.got(OPENS[version])) == 1


@on_fake_clock
async def test_who_waits_for_the_same_is_told_when_it_fails_or_is_given_up() -> None:
    async with opened(STATELESS) as (client, peer):
        first = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen")
        second = asyncio.ensure_future(client.resources.subscribe(URI))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(StateError, match="gave it up"):
            await second
        await peer.expect("notifications/cancelled")
        third = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen", 2)
        await client.resources.unsubscribe(URI)
        with pytest.raises(StateError, match="unsubscribed meanwhile"):
            await third


@on_fake_clock
async def test_who_is_unsubscribed_before_the_answer_came_is_told_and_nothing_is_opened_again() -> None:
    async with opened(HANDSHAKE) as (client, peer):
        waiting = asyncio.ensure_future(client.resources.subscribe(URI, print))
        subscribing = await peer.expect("resources/subscribe")
        leaving = asyncio.ensure_future(client.resources.unsubscribe(URI))
        unsubscribing = await peer.expect("resources/unsubscribe")
        subscribing.answer({})
        unsubscribing.answer({})
        await leaving
        with pytest.raises(StateError, match="was unsubscribed meanwhile"):
            await waiting
        peer.die()
        await peer.until(lambda: client.state == "backoff")
        await client.ready()
        await client.ping()
        assert len(peer.got("resources/subscribe")) == 1


@on_fake_clock
async def test_stopping_releases_who_waits_at_once() -> None:
    async with opened(STATELESS) as (client, peer):
        waiting = asyncio.ensure_future(client.resources.subscribe(URI))
        await peer.expect("subscriptions/listen")
        await client.stop()
        with pytest.raises(ShutdownError):
            await waiting
        assert asyncio.get_running_loop().time() < 1


@on_fake_clock
async def test_a_subscription_that_the_server_ends_is_told_and_opened_with_the_next_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(STATELESS) as (client, peer):
        listening(peer)
        ends: list[McpError | None] = []
        await client.resources.subscribe(URI, on_end=ends.append)
        await client.resources.subscribe("file:///b")
        one, two = (message["id"] for message in peer.got("subscriptions/listen"))
        with caplog.at_level(logging.WARNING, "jackstay.client"):
            peer.notify("notifications/cancelled", requestId=one)
            peer.refuse(two, -32603, "out of order")
            await heard(client)
        assert ends == [None]
        assert "it gave no reason" in caplog.text
        assert "out of order" in caplog.text
        peer.die()
        await peer.expect("subscriptions/listen", 4)


@on_fake_clock
async def test_a_handler_of_the_end_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(error: object) -> None:
        raise RuntimeError("mine")

    async with opened(STATELESS) as (client, peer):
        listening(peer)
        await client.resources.subscribe(URI, on_end=fail)
        peer.answer(peer.got("subscriptions/listen")[0]["id"], {"resultType": "complete"})
        await heard(client)
        assert "mine" in caplog.text


@on_fake_clock
async def test_an_update_of_a_part_reaches_who_wants_the_whole() -> None:
    async with opened(STATELESS) as (client, peer):
        listening(peer)
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
        await heard(client)
        assert whole == ["file:///dir/a"]
        assert other == ["row:7"]


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_before_ready_it_waits_or_refuses_as_every_call_does(version: str) -> None:
    async with peered(version) as (client, peer):
        listening(peer)
        with pytest.raises(StateError, match="not open"):
            await client.resources.subscribe(URI)
        await client.open(wait=False)
        with pytest.raises(StateError):
            await client.resources.subscribe(URI, wait_for_ready=False)
        await client.resources.subscribe(URI)
        assert len(peer.got(OPENS[version])) == 1
        peer.returns = False
        peer.die()
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
async def test_a_stateless_server_is_asked_for_changes_of_lists_when_somebody_listens() -> None:
    async with peered(STATELESS, offers={"tools": {"listChanged": True}, "prompts": {}}) as (client, peer):
        changes: list[str] = []
        client.on_notification(lambda notification: changes.append(notification.method))
        await client.open()
        listen = await peer.expect("subscriptions/listen")
        assert listen["params"]["notifications"] == {"toolsListChanged": True}
        peer.notify("notifications/subscriptions/acknowledged", notifications={}, _meta={ID: listen["id"]})
        peer.notify("notifications/tools/list_changed", _meta={ID: listen["id"]})
        await heard(client)
        assert changes == ["notifications/tools/list_changed"]
        peer.die()
        await peer.expect("subscriptions/listen", 2)
        peer.answer(peer.got("subscriptions/listen")[1]["id"], {"resultType": "complete"})
        await heard(client)


@on_fake_clock
async def test_a_server_that_offers_changes_only_after_a_restart_is_asked_then_and_once() -> None:
    async with peered(STATELESS, offers={"tools": {}}) as (client, peer):
        client.on_notification(print)
        await client.open()
        await client.ping()
        assert peer.got("subscriptions/listen") == []
        peer.capabilities = {"tools": {"listChanged": True}}
        peer.die()
        await peer.expect("subscriptions/listen")
        peer.die()
        await peer.expect("subscriptions/listen", 2)
        await client.ready(60)
        await heard(client)
        assert len(peer.got("subscriptions/listen")) == 2


@on_fake_clock
async def test_nobody_is_asked_where_nobody_listens_or_nothing_changes() -> None:
    async with opened(STATELESS) as (client, peer):
        await client.ping()
        assert peer.got("subscriptions/listen") == []
        client.on_notification(print)
        client.on_notification(print)
        await peer.expect("subscriptions/listen")
        assert len(peer.got("subscriptions/listen")) == 1
    for version, offers in ((STATELESS, {"tools": {"listChanged": False}}), (HANDSHAKE, None)):
        async with peered(version, offers=offers) as (client, peer):
            client.on_notification(print)
            await client.open()
            await client.ping()
            assert peer.got("subscriptions/listen") == []


@on_fake_clock
async def test_an_acknowledgement_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(STATELESS) as (client, peer):
        peer.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
        peer.notify("notifications/subscriptions/acknowledged", notifications={}, _meta={ID: "theirs"})
        peer.notify("notifications/subscriptions/acknowledged", notifications={})
        await heard(client)
        assert "cannot be read" in caplog.text


@on_fake_clock
async def test_a_handler_of_notifications_may_subscribe() -> None:
    async with opened(STATELESS) as (client, peer):
        listening(peer)
        done = asyncio.Event()

        async def follow(notification: object) -> None:
            if not done.is_set():
                await client.resources.subscribe(URI, timeout=1)
                done.set()

        client.on_notification(follow)
        peer.notify("notifications/message", level="info", data="x")
        await done.wait()
