"""`client.resources`: listed, read; subscriptions have a file of their own."""

import pytest

from jackstay.errors import CapabilityError
from jackstay.testing import on_fake_clock
from jackstay.types import ReadResourceResult, Resource, ResourceTemplate
from scripted.peer import ERAS, opened


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_resources_and_templates_are_listed_and_read(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["resources/list"] = {"resources": [{"uri": "file:///a", "name": "a"}]}
        peer.on["resources/templates/list"] = {"resourceTemplates": [{"uriTemplate": "file:///{name}", "name": "any"}]}
        peer.on["resources/read"] = {"contents": [{"uri": "file:///a", "text": "hello"}]}
        assert isinstance((await client.resources.list())[0], Resource)
        assert isinstance((await client.resources.templates())[0], ResourceTemplate)
        result = await client.resources.read("file:///a", timeout=1)
        assert isinstance(result, ReadResourceResult)
        assert peer.got("resources/read")[0]["params"]["uri"] == "file:///a"


@on_fake_clock
async def test_a_subscription_is_opened_and_closed_through_it() -> None:
    async with opened() as (client, peer):
        peer.on["resources/subscribe"] = peer.on["resources/unsubscribe"] = {}
        await client.resources.subscribe("file:///a")
        await client.resources.unsubscribe("file:///a")
        assert len(peer.got("resources/unsubscribe")) == 1


@on_fake_clock
async def test_resources_require_the_capability() -> None:
    async with opened(server_capabilities={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.resources.read("file:///a")
