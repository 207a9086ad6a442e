"""Public, private and reserved IP addresses."""

import pytest

from procontext.fetch._addresses import is_private_address, is_public, parse_address

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.215.14",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "192.0.1.1",
    "172.32.0.1",
]

PRIVATE = [
    "10.0.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd00::1",
]

RESERVED = [
    "0.0.0.0",
    "169.254.169.254",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "100::1",
]


def test_public_addresses(subtests: pytest.Subtests) -> None:
    for text in PUBLIC:
        with subtests.test(text=text):
            address = parse_address(text)
            assert address is not None
            assert is_public(address)
            assert not is_private_address(address)


def test_private_addresses(subtests: pytest.Subtests) -> None:
    for text in PRIVATE:
        with subtests.test(text=text):
            address = parse_address(text)
            assert address is not None
            assert not is_public(address)
            assert is_private_address(address)


def test_reserved_addresses(subtests: pytest.Subtests) -> None:
    """NAT64, 6to4, mapped IPv4, multicast, link-local: such addresses can lead into a private network."""
    for text in RESERVED:
        with subtests.test(text=text):
            address = parse_address(text)
            assert address is not None
            assert not is_public(address)
            assert not is_private_address(address)


NON_CANONICAL: list[str] = [
    "",
    "localhost",
    "127.1",
    "0x7f.0.0.1",
    "fe80::1%eth0",
    "010.0.0.1",
    "1.2.3.4.5",
]


def test_non_canonical_spellings_are_not_addresses() -> None:
    for text in NON_CANONICAL:
        assert parse_address(text) is None, text
