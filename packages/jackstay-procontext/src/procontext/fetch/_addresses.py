"""Which network addresses are the public Internet, and which are somebody's inside.

`ipaddress.is_global` is a beginning: it calls 6to4, NAT64 and multicast addresses global on some versions of Python, and they
are roads to the inside as much as 10.0.0.1 is. So the ranges are rows here, from the special-purpose registries of IANA
(RFC 6890 and its updates), and the same on every version.

Pure. Must never know names or resolve them. Above: `_fetcher`. Below: `ipaddress`.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

# What a host that is named in `allowed_private_hosts` may have: an inside that people run servers in.
INSIDE_4 = tuple(
    map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
)
INSIDE_6 = tuple(map(IPv6Network, ("::1/128", "fc00::/7")))

# Not public and not an inside either: no server of documentation has one of these, whatever the settings say.
ODD_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # "this network"; 0.0.0.0 connects to this machine on Linux
            "169.254.0.0/16",  # link-local: the metadata services of the clouds
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

# IPv6 is the other way round: only 2000::/3 was ever given out. NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), mapped IPv4
# (::ffff:0:0/96), link-local, site-local and multicast all lie outside of it.
GIVEN_OUT_6 = IPv6Network("2000::/3")
ODD_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments: Teredo, ORCHID, benchmarking
            "2001:db8::/32",
            "2002::/16",  # 6to4: any IPv4 address, private ones too, in disguise
            "3fff::/20",
        ),
    )
)


def read_address(text: str) -> Address | None:
    """The address that is written here in full; None if it is a name, has a zone, or is written in an odd way."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def is_inside(address: Address) -> bool:
    """Whether it is loopback or a private network: reachable only by permission."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in INSIDE_4)
    return any(address in network for network in INSIDE_6)


def is_public(address: Address) -> bool:
    """Whether anybody on the Internet could reach it."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in (*INSIDE_4, *ODD_4))
    return address in GIVEN_OUT_6 and not any(address in network for network in ODD_6)


__all__ = ["is_inside", "is_public", "read_address"]
