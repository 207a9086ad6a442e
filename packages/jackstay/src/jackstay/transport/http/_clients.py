"""Selects the HTTP client of a transport: the user's, or the default one.

Clients of known libraries are recognised by class name and wrapped, so that no library is imported for the check.
"""

import os
import ssl
import sys
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies, proxy_bypass

from jackstay.errors import TransportError, UsageError
from jackstay.extras import install_command
from jackstay.transport.http._contract import HttpClient

if TYPE_CHECKING:
    import aiohttp

# For connecting, including name resolution and TLS.
CONNECT_TIMEOUT: Final = 10.0

# These have `send()` and `close()`, too, but they are not coroutines.
_BLOCKING = frozenset(("httpx.Client", "httpx2.Client", "requests.Session"))


def wrap(client: object) -> HttpClient:
    """Return the user's client as an `HttpClient`. Raises: UsageError if it is not a supported client."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(client).__mro__}
    if "aiohttp.ClientSession" in kinds:
        from jackstay.transport.http._aiohttp import AiohttpClient  # noqa: PLC0415  # loaded on first use

        session: aiohttp.ClientSession = client  # type: ignore[assignment]  # checked by its class name
        return AiohttpClient(session)
    for library in ("httpx", "httpx2"):
        if f"{library}.AsyncClient" in kinds:
            from jackstay.transport.http._httpx import HttpxClient  # noqa: PLC0415  # as above

            return HttpxClient(client, sys.modules[library])
    is_blocking = not _BLOCKING.isdisjoint(kinds)
    if isinstance(client, HttpClient) and not is_blocking:
        return client
    hint = ", which blocks the event loop" if is_blocking else ""
    raise UsageError(
        "client must be an aiohttp.ClientSession, an httpx.AsyncClient or a jackstay.transport.HttpClient, "
        f"not {type(client).__name__}{hint}",
        path="client",
    )


def default_http_client(
    *, verify: bool | ssl.SSLContext = True, proxy: str | None = None, connect_timeout: float | None = CONNECT_TIMEOUT
) -> HttpClient:
    """Return the HTTP client that transports use by default. The caller closes it. Needs a running loop.

    `proxy` is a URL, or "" for none; None: according to HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

    Raises: TransportError if the extra `http` is not installed.
    """
    try:
        from jackstay.transport.http._pool import Http1Client  # noqa: PLC0415  # loaded on first use
    except ImportError as error:
        message = f"HTTP needs the extra 'http' ({error}); run {install_command('http')}"
        raise TransportError(message, permanent=True) from error

    proxy_of = environment_proxy if proxy is None else lambda _: proxy or None
    return Http1Client(verify=verify, proxy_of=proxy_of, connect_timeout=connect_timeout)


def environment_proxy(url: str) -> str | None:
    """Return the proxy for `url` according to HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""
    scheme, _, rest = url.partition("://")
    proxies = getproxies()
    found = proxies.get(scheme) or proxies.get("all")
    authority = rest.partition("/")[0].partition("?")[0]
    # NO_PROXY has IPv6 addresses with or without brackets.
    if not found or proxy_bypass(authority) or proxy_bypass(authority.partition("]")[0].lstrip("[")):
        return None
    return found if "://" in found else f"http://{found}"


def trust(verify: object, ca: str | os.PathLike[str] | None) -> bool | ssl.SSLContext:
    """Return the `ssl` argument for `verify` and `ca`. Raises: UsageError for certificates that cannot be loaded."""
    if not isinstance(verify, bool | ssl.SSLContext):
        raise UsageError(
            f"verify must be a bool or an ssl.SSLContext, not {verify!r}; pass a file of certificates as ca",
            path="verify",
        )
    if ca is None:
        return verify
    if verify is not True:
        raise UsageError("ca and verify cannot be combined; pass one of them", path="ca")
    path = os.fspath(ca)
    try:
        return (
            ssl.create_default_context(capath=path) if os.path.isdir(path) else ssl.create_default_context(cafile=path)
        )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot load the certificates in {path!r}: {error}", path="ca") from error
