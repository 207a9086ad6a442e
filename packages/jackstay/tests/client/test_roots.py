"""`client.roots`: which places the server may look at, before it asks and when they change."""

from typing import Any

import pytest

from jackstay.errors import CapabilityError, UsageError
from jackstay.testing import on_fake_clock
from jackstay.types import Root
from scripted.peer import HANDSHAKE, STATELESS, opened, peered


@on_fake_clock
async def test_roots_are_declared_answered_and_their_change_is_told() -> None:
    async with peered() as (client, peer):
        client.roots.set(["file:///a", Root(uri="file:///b", name="b")])
        await client.open()
        declared = peer.got("initialize")[0]["params"]["capabilities"]
        assert declared == {"roots": {"listChanged": True}}
        peer.ask("q1", "roots/list")
        answer = await peer.answer_to("q1")
        assert answer["result"]["roots"] == [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]
        client.roots.set([])
        await peer.expect("notifications/roots/list_changed")
        peer.ask("q2", "roots/list")
        assert (await peer.answer_to("q2"))["result"]["roots"] == []


@on_fake_clock
async def test_roots_that_were_not_declared_are_kept_to_oneself() -> None:
    async with opened() as (client, peer):
        client.roots.set(["file:///a"])
        await client.ping()
        assert peer.got("notifications/roots/list_changed") == []


@pytest.mark.parametrize("roots", ["file:///a", 5, [5], ["/a"], [None]])
@on_fake_clock
async def test_what_is_no_list_of_addresses_is_refused_before_a_server_asks(roots: Any) -> None:
    async with peered() as (client, _):
        with pytest.raises(UsageError, match="address"):
            client.roots.set(roots)
        await client.open()
        assert client.state == "ready"


@on_fake_clock
async def test_a_stateless_server_is_not_told_and_between_connections_nobody_is() -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        client.roots.set(["file:///b"])
        await client.ping()
        assert peer.got("notifications/roots/list_changed") == []
    client.roots.set(["file:///c"])
    async with peered(HANDSHAKE) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        peer.die()
        await peer.until(lambda: client.state == "backoff")
        client.roots.set(["file:///b"])
        await client.stop()
        client.roots.set(["file:///c"])


@on_fake_clock
async def test_asking_the_server_for_roots_needs_a_server_that_says_it_has_some() -> None:
    async with opened() as (client, _):
        with pytest.raises(CapabilityError, match=r"client\.roots\.set"):
            await client.roots.list()
    async with opened(offers={"roots": {}}) as (client, peer):
        peer.on["roots/list"] = {"roots": [{"uri": "file:///s"}]}
        assert [root.uri for root in await client.roots.list()] == ["file:///s"]
