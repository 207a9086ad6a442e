"""`client.logging`."""

import pytest

from jackstay.errors import CapabilityError
from jackstay.testing import on_fake_clock
from scripted.peer import STATELESS, opened


@on_fake_clock
async def test_the_level_is_set_where_there_is_a_handshake() -> None:
    async with opened() as (client, peer):
        peer.on["logging/setLevel"] = {}
        await client.logging.set_level("warning")
        assert peer.got("logging/setLevel")[0]["params"] == {"level": "warning"}


@on_fake_clock
async def test_a_stateless_server_takes_it_with_each_request_and_the_error_says_how() -> None:
    async with opened(STATELESS) as (client, _):
        with pytest.raises(CapabilityError, match=r'"io\.modelcontextprotocol/logLevel": "debug"'):
            await client.logging.set_level("debug")


@on_fake_clock
async def test_a_server_that_does_not_log_is_not_asked() -> None:
    async with opened(offers={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.logging.set_level("debug")
