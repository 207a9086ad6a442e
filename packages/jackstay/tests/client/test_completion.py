"""`client.completion`."""

import pytest

from jackstay.errors import CapabilityError
from jackstay.testing import on_fake_clock
from jackstay.types import PromptReference, ResourceTemplateReference
from scripted.peer import ERAS, opened


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_arguments_are_completed_with_and_without_context(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["completion/complete"] = {"completion": {"values": ["Bern", "Berlin"], "hasMore": False}}
        found = await client.completion.complete(PromptReference(name="greet"), "city", "Ber")
        assert list(found.values) == ["Bern", "Berlin"]
        params = peer.got("completion/complete")[0]["params"]
        assert params["ref"] == {"type": "ref/prompt", "name": "greet"}
        assert params["argument"] == {"name": "city", "value": "Ber"}
        assert "context" not in params
        reference = ResourceTemplateReference(uri="file:///{name}")
        await client.completion.complete(reference, "name", "", {"country": "ch"})
        assert peer.got("completion/complete")[1]["params"]["context"] == {"arguments": {"country": "ch"}}


@on_fake_clock
async def test_completion_requires_the_capability() -> None:
    async with opened(server_capabilities={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.completion.complete(PromptReference(name="greet"), "city", "")
