"""The real network on loopback: names, connections, TLS verified for the name (design, section 1, row "private IP ranges")."""

import ssl
from pathlib import Path

import pytest

from procontext.fetch import SystemNetwork, read_url
from procontext.fetch._exchange import exchange
from scripted import certificates
from scripted.documentation import Site, text
from scripted.loop import timed


@timed
async def test_a_name_has_addresses_each_once() -> None:
    found = await SystemNetwork().resolve("localhost", 80)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(set(found)) == len(found) > 0


@timed
async def test_a_connection_is_plain_without_a_name_for_tls() -> None:
    async with Site({"/": text("plain")}) as site:
        streams = await SystemNetwork().connect("127.0.0.1", site.port, None)
        assert (await exchange(streams, read_url(f"{site.url}/"), [], 1000)).body == b"plain"
        streams[1].transport.abort()


def test_tls_is_verified_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    """The certificate is for 127.0.0.1: the same connection under another name is refused."""
    context, authority = certificates.make(tmp_path)

    @timed
    async def scenario() -> None:
        async with Site({"/": text("secret")}, tls=context) as site:
            network = SystemNetwork(str(authority))
            streams = await network.connect("127.0.0.1", site.port, "127.0.0.1")
            assert (await exchange(streams, read_url(f"{site.url}/"), [], 1000)).body == b"secret"
            streams[1].transport.abort()
            with pytest.raises(ssl.SSLCertVerificationError):
                await network.connect("127.0.0.1", site.port, "docs.example.com")
            with pytest.raises(ssl.SSLCertVerificationError):  # the authority is ours, and nobody else's
                await SystemNetwork().connect("127.0.0.1", site.port, "127.0.0.1")

    scenario()
