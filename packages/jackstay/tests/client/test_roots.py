"""`client.roots`: declared roots, and notifications when they change."""

from typing import Any

import pytest

from jackstay.errors import CapabilityError, UsageError
from jackstay.testing import on_fake_clock
from jackstay.types import Root
from scripted.peer import HANDSHAKE, STATELESS, opened, peered


@on_fake_clock
async def test_roots_are_declared_returned_and_changes_are_notified() -> None:
    async with peered() as (client, peer):
        client.roots.set(["file:///a", Root(uri="file:///b", name="b")])
        await client.open()
        declared = peer.got("initialize")[0]["params"]["capabilities"]
        assert declared == {"roots": {"listChanged": True}}
        peer.request("q1", "roots/list")
        answer = await peer.response_to("q1")
        assert answer["result"]["roots"] == [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]
        client.roots.set([])
        await peer.expect("notifications/roots/list_changed")
        peer.request("q2", "roots/list")
        assert (await peer.response_to("q2"))["result"]["roots"] == []


@on_fake_clock
async def test_changes_of_undeclared_roots_are_not_sent() -> None:
    async with opened() as (client, peer):
        client.roots.set(["file:///a"])
        await client.ping()
        assert peer.got("notifications/roots/list_changed") == []


@on_fake_clock
async def test_invalid_roots_are_refused_by_set() -> None:
    values: list[Any] = ["file:///a", 5, [5], ["/a"], [None]]
    async with peered() as (client, _):
        for roots in values:
            with pytest.raises(UsageError, match="URI"):
                client.roots.set(roots)
        await client.open()
        assert client.state == "ready"


@on_fake_clock
async def test_root_changes_are_not_sent_to_stateless_or_disconnected_servers() -> None:
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
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        client.roots.set(["file:///b"])
        await client.stop()
        client.roots.set(["file:///c"])


@on_fake_clock
async def test_listing_roots_of_the_server_requires_the_capability() -> None:
    async with opened() as (client, _):
        with pytest.raises(CapabilityError, match=r"client\.roots\.set"):
            await client.roots.list()
    async with opened(server_capabilities={"roots": {}}) as (client, peer):
        peer.on["roots/list"] = {"roots": [{"uri": "file:///s"}]}
        assert [root.uri for root in await client.roots.list()] == ["file:///s"]
