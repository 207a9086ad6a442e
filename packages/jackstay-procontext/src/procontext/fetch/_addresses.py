"""Classification of IP addresses: public, private or reserved.

`ipaddress.is_global` is not enough: on some versions of Python it includes 6to4, NAT64 and multicast addresses, which
can lead into a private network. The ranges here are from the IANA special-purpose address registries (RFC 6890).
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

# Private ranges, which a host in `allowed_private_hosts` may have.
PRIVATE_IPV4 = tuple(
    map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
)
PRIVATE_IPV6 = tuple(map(IPv6Network, ("::1/128", "fc00::/7")))

# Neither public nor private: never allowed, whatever the settings are.
RESERVED_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # "this network"; 0.0.0.0 connects to this machine on Linux
            "169.254.0.0/16",  # link-local: metadata services of cloud providers
            "192.0.0.0/24",  # IETF protocol assignments, NAT64 discovery
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and the broadcast address
        ),
    )
)

# For IPv6, only 2000::/3 is allocated as global unicast. NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), mapped IPv4
# (::ffff:0:0/96), link-local, site-local and multicast are outside of it.
GLOBAL_UNICAST_IPV6 = IPv6Network("2000::/3")
RESERVED_IPV6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments: Teredo, ORCHID, benchmarking
            "2001:db8::/32",
            "2002::/16",  # 6to4: embeds any IPv4 address, also a private one
            "3fff::/20",
        ),
    )
)


def parse_address(text: str) -> Address | None:
    """Parse an IP address; None for a name, an address with a zone, or a non-canonical spelling."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def is_private_address(address: Address) -> bool:
    """Return whether an address is loopback or private, and so reachable only with `allowed_private_hosts`."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in PRIVATE_IPV4)
    return any(address in network for network in PRIVATE_IPV6)


def is_public(address: Address) -> bool:
    """Return whether an address is globally reachable."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in (*PRIVATE_IPV4, *RESERVED_IPV4))
    return address in GLOBAL_UNICAST_IPV6 and not any(address in network for network in RESERVED_IPV6)


__all__ = ["is_private_address", "is_public", "parse_address"]
