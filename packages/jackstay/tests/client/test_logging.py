"""`client.logging`."""

import pytest

from jackstay.errors import CapabilityError
from jackstay.testing import on_fake_clock
from scripted.peer import STATELESS, opened


@on_fake_clock
async def test_the_level_is_set_in_the_handshake_era() -> None:
    async with opened() as (client, peer):
        peer.on["logging/setLevel"] = {}
        await client.logging.set_level("warning")
        assert peer.got("logging/setLevel")[0]["params"] == {"level": "warning"}


@on_fake_clock
async def test_setting_the_level_of_a_stateless_server_explains_meta() -> None:
    async with opened(STATELESS) as (client, _):
        with pytest.raises(CapabilityError, match=r'"io\.modelcontextprotocol/logLevel": "debug"'):
            await client.logging.set_level("debug")


@on_fake_clock
async def test_the_level_is_not_sent_without_the_logging_capability() -> None:
    async with opened(server_capabilities={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.logging.set_level("debug")
