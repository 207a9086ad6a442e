"""Which HTTP client carries a transport: the one that was handed in, or our own.

A client of a known library is wrapped, and recognised by its class alone, so that no library is loaded for asking. Anything
else must keep the contract itself.

Must never know MCP. Above: `_target`. Below: `_aiohttp`, `_httpx`, each loaded when it is needed.
"""

import os
import ssl
import sys
from typing import Final
from urllib.request import getproxies, proxy_bypass

from jackstay.errors import TransportError, UsageError
from jackstay.extras import install_command
from jackstay.transport.http._contract import HttpClient

# From the first packet to a connection that can be written to, name and TLS included.
CONNECT_TIMEOUT: Final = 10.0

# These have `send()` and `close()`, too, but nothing to await.
_BLOCKING = frozenset(("httpx.Client", "httpx2.Client", "requests.Session"))


def wrap(client: object) -> HttpClient:
    """The client that was handed in, as the contract has it. Raises: UsageError for what is none."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(client).__mro__}
    if "aiohttp.ClientSession" in kinds:
        from jackstay.transport.http._aiohttp import AiohttpClient  # noqa: PLC0415  # a library is loaded when it is used

        session: object = client
        return AiohttpClient(session, own=False, connect_timeout=session.timeout.connect)  # type: ignore[arg-type, attr-defined]  # seen above, by name
    for library in ("httpx", "httpx2"):
        if f"{library}.AsyncClient" in kinds:
            from jackstay.transport.http._httpx import HttpxClient  # noqa: PLC0415  # as above

            return HttpxClient(client, sys.modules[library])
    is_blocking = not _BLOCKING.isdisjoint(kinds)
    if isinstance(client, HttpClient) and not is_blocking:
        return client
    what = type(client).__name__
    hint = ", which blocks the loop" if is_blocking else ""
    raise UsageError(
        f"client must be an aiohttp.ClientSession, an httpx.AsyncClient, or have send() and close(): not {what}{hint}",
        path="client",
    )


def default_http_client(
    *,
    verify: bool | ssl.SSLContext = True,
    proxy: str | None = None,
    connect_timeout: float | None = CONNECT_TIMEOUT,
) -> HttpClient:
    """The HTTP client that a transport would use, also for whoever else must fetch something. Close it.

    `proxy` is a URL, "" for none; None: as HTTPS_PROXY and its kin say. Needs a running loop.

    Raises: TransportError where the extra `http` is not installed.
    """
    try:
        from jackstay.transport.http import _aiohttp  # noqa: PLC0415  # a library is loaded when it is used
    except ImportError as error:
        message = f"HTTP needs the extra `http`: {install_command('http')} ({error})"
        raise TransportError(message, permanent=True) from error

    def fixed(_: str) -> str | None:
        return proxy or None

    proxy_of = environment_proxy if proxy is None else fixed
    return _aiohttp.own_client(verify=verify, proxy_of=proxy_of, connect_timeout=connect_timeout)


def environment_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY ask for, as other programs read them."""
    scheme, _, rest = url.partition("://")
    proxies = getproxies()
    found = proxies.get(scheme) or proxies.get("all")
    if not found or proxy_bypass(rest.partition("/")[0].partition("?")[0]):
        return None
    return found if "://" in found else f"http://{found}"


def trust(verify: object, ca: str | os.PathLike[str] | None) -> bool | ssl.SSLContext:
    """What certificates are checked against. Raises: UsageError for a file that cannot be used."""
    if not isinstance(verify, bool | ssl.SSLContext):
        raise UsageError(
            "verify must be True, False or an ssl.SSLContext; a file goes into ca", path="verify"
        )
    if ca is None:
        return verify
    if verify is not True:
        raise UsageError("ca says whom to trust, and so does verify: give one of them", path="ca")
    place = os.fspath(ca)
    try:
        return (
            ssl.create_default_context(capath=place)
            if os.path.isdir(place)
            else ssl.create_default_context(cafile=place)
        )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use the certificates in {place}: {error}", path="ca") from error
