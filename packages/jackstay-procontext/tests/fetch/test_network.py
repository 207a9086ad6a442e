"""The system's network on loopback: name resolution, connections and TLS."""

import ssl
from pathlib import Path

import pytest

from procontext.fetch import SystemNetwork, parse_url
from procontext.fetch._exchange import exchange
from scripted import certificates
from scripted.documentation import Site, text


async def test_resolve_returns_distinct_addresses() -> None:
    found = await SystemNetwork().resolve("localhost", 80)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(set(found)) == len(found) > 0


async def test_connect_without_tls() -> None:
    async with Site({"/": text("plain")}) as site:
        streams = await SystemNetwork().connect("127.0.0.1", site.port, None)
        assert (await exchange(streams, parse_url(f"{site.url}/"), [], 1000)).body == b"plain"
        streams[1].transport.abort()


async def test_tls_is_verified_for_the_name(tmp_path: Path) -> None:
    """The certificate is for 127.0.0.1: a connection with another name is rejected."""
    context, authority = certificates.make(tmp_path)

    async with Site({"/": text("secret")}, tls=context) as site:
        network = SystemNetwork(str(authority))
        streams = await network.connect("127.0.0.1", site.port, "127.0.0.1")
        assert (await exchange(streams, parse_url(f"{site.url}/"), [], 1000)).body == b"secret"
        streams[1].transport.abort()
        with pytest.raises(ssl.SSLCertVerificationError):
            await network.connect("127.0.0.1", site.port, "docs.example.com")
        with pytest.raises(ssl.SSLCertVerificationError):  # the authority of the test is not trusted
            await SystemNetwork().connect("127.0.0.1", site.port, "127.0.0.1")
