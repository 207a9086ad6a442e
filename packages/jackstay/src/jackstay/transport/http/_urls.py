"""Checks the user's URL, and whether a URL stays on this machine."""

from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.protocol.http import origin_of

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def check_url(url: object) -> str:
    """Return the URL if it is usable. Raises: UsageError, without the parts that may contain a secret."""
    from urllib.parse import urlsplit  # noqa: PLC0415  # importing takes 3 ms

    if not isinstance(url, str) or not url:
        what = "''" if url == "" else type(url).__name__
        raise UsageError(f"url must be a str such as 'https://example.org/mcp', not {what}", path="url")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"url cannot be parsed: {error}", path="url") from None
    shown = f"{scheme}://{host or ''}" if scheme else url.partition("?")[0][:80]
    if scheme not in ("http", "https"):
        hint = "; is 'https://' missing?" if not parts.netloc else ""
        raise UsageError(f"url must begin with http:// or https://, not {shown!a}{hint}", path="url")
    if not host:
        raise UsageError(f"url has no host: {shown!a}", path="url")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "url must not contain a user name or password, which would appear in logs; pass auth=(name, password)",
            path="url",
        )
    if port == 0:
        raise UsageError("url has the invalid port 0", path="url")
    if parts.fragment or any(mark in url for mark in " \t\r\n\\") or not url.isprintable():
        raise UsageError(f"url must not contain a fragment, spaces or a backslash: {shown!a}", path="url")
    return url


def is_loopback(url: str) -> bool:
    """Return whether the host is this machine: `localhost` and subdomains, 127.0.0.0/8 and ::1, in any spelling."""
    origin = origin_of(url)
    if origin is None:
        return False
    host = origin[1]
    address = address_of(host)
    if address is None:
        name = host.rstrip(".")
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified  # 0.0.0.0 connects to this machine, too


def address_of(host: str) -> "IPv4Address | IPv6Address | None":
    """Return the IP address that a host is, IPv4-mapped IPv6 addresses as IPv4; None for a name.

    Also in the old spellings 127.1, 0x7f000001 and 2130706433, which resolvers accept.
    """
    from ipaddress import IPv4Address, IPv6Address, ip_address  # noqa: PLC0415  # as above
    from socket import inet_aton  # noqa: PLC0415  # as above

    try:
        address = ip_address(host)
    except ValueError:
        try:
            address = IPv4Address(inet_aton(host.rstrip(".")))
        except OSError:
            return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
