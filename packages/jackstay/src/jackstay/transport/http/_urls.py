"""The user's own URL: what is refused before anything is sent; and of any URL whether it stays on this machine.

Must never know what is sent there. Above: `_target`, `jackstay.oauth`, `jackstay.server.http`. Below: `jackstay.protocol.http`
(origins).
"""

from typing import TYPE_CHECKING

from jackstay.errors import UsageError
from jackstay.protocol.http import origin_of

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def check_url(url: object) -> str:
    """The user's own URL. Raises: UsageError, without the part that may hold a secret."""
    from urllib.parse import urlsplit  # noqa: PLC0415  # takes 3 ms, and few programs come here

    if not isinstance(url, str) or not url:
        what = "empty" if url == "" else type(url).__name__
        raise UsageError(f"a URL is text such as https://example.org/mcp, not {what}", path="url")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"not a URL ({error})", path="url") from None
    shown = f"{scheme}://{host or ''}" if scheme else url.partition("?")[0][:80]
    if scheme not in ("http", "https"):
        hint = " (is https:// missing?)" if not parts.netloc else ""
        raise UsageError(f"only http and https URLs are spoken to, not {shown!a}{hint}", path="url")
    if not host:
        raise UsageError(f"the URL {shown!a} names no host", path="url")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "a URL with a name or password in it ends up in logs: pass auth=(name, password)", path="url"
        )
    if port == 0:
        raise UsageError("port 0 cannot be connected to", path="url")
    if parts.fragment or any(mark in url for mark in " \t\r\n\\") or not url.isprintable():
        raise UsageError(f"the URL of {shown!a} has a fragment, spaces or a backslash in it", path="url")
    return url


def is_loopback(url: str) -> bool:
    """Whether it stays on this machine: `localhost` and its subdomains, 127.0.0.0/8 and ::1, in any spelling."""
    origin = origin_of(url)
    if origin is None:
        return False
    host = origin[1]
    address = address_of(host)
    if address is None:
        name = host.rstrip(".")
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified  # 0.0.0.0 leads here, too


def address_of(host: str) -> "IPv4Address | IPv6Address | None":
    """The address that a host is, an IPv4 address in IPv6 clothes undressed; None for a name.

    Also in the spellings of old: 127.1, 0x7f000001 and 2130706433 are all this machine to who looks them up.
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
