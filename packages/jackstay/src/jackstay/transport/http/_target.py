"""Servers at a URL: `http("https://example.org/mcp")` returns a target for any revision and HTTP transport.

Nothing is connected before `open()`. Credentials are sent only over https or to this machine.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from os import PathLike
from typing import Final

import msgspec

from jackstay.errors import UsageError
from jackstay.transport._contract import ExchangeHandler, Transport, TransportHandler
from jackstay.transport._queue import FrameQueue
from jackstay.transport.http._auth import CREDENTIALS, Auth, check_headers, static_credentials
from jackstay.transport.http._clients import CONNECT_TIMEOUT, default_http_client, trust, wrap
from jackstay.transport.http._contract import Authorizer, Headers, HttpClient
from jackstay.transport.http._sending import Sender
from jackstay.transport.http._transport import HttpTransport, KnownServer
from jackstay.transport.http._urls import check_url, is_loopback

# Concurrent requests; more are queued. Most systems allow a process 1,024 open files.
MAX_CONNECTIONS: Final = 100

# The usual `init_timeout`, to which the time of a sign-in is added.
BASE_INIT_TIMEOUT: Final = 10.0

# How long a server may take to begin its response to the handshake if the start has time for a sign-in: that time is
# for the user, not for a server that is down. Longer than the usual `init_timeout`, for servers that start slowly.
HANDSHAKE_RESPONSE_TIMEOUT: Final = 30.0


class HttpTarget(msgspec.Struct, eq=False, kw_only=True):
    """An MCP server at a URL. Returned by `http()`; each `open()` begins a session."""

    url: str
    name: str
    # The `ssl` setting, also for other requests to the same server.
    verify: bool | ssl.SSLContext
    _headers: tuple[tuple[str, str], ...]
    _authorizer: Authorizer | None
    _client: HttpClient | None
    _make_client: Callable[[], HttpClient]  # without `_client`
    _max_connections: int
    _known: KnownServer = msgspec.field(default_factory=KnownServer)

    is_http = True

    def __repr__(self) -> str:
        # Neither header values nor the query are shown: both may contain secrets.
        shown, question, _ = self.url.partition("?")
        return f"<{self.__class__.__name__} {self.name}: {shown}{question and '?...'}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("name", self.name)]  # otherwise rich shows all fields

    @property
    def init_timeout(self) -> float | None:
        """None, or the usual timeout plus the `sign_in_timeout` of the authorizer.

        Otherwise a start that times out would close the connections in which the sign-in is completed, and the next
        start would open another page.
        """
        return BASE_INIT_TIMEOUT + self._sign_in_timeout if self._sign_in_timeout else None

    @property
    def _sign_in_timeout(self) -> float:
        return float(getattr(self._authorizer, "sign_in_timeout", 0.0))

    @property
    def has_credentials(self) -> bool:
        """True if there is an authorizer, or one of the user's headers is a credential."""
        return self._authorizer is not None or any(name.lower() in CREDENTIALS for name, _ in self._headers)

    def with_authorizer(self, authorizer: Authorizer) -> "HttpTarget":
        """Return a copy that uses `authorizer`."""
        return msgspec.structs.replace(self, _authorizer=authorizer)

    def with_headers(self, headers: Iterable[tuple[str, str]]) -> "HttpTarget":
        """Return a copy that also sends these headers. Raises: UsageError, as `http()`."""
        pairs = check_headers(headers)
        _check_secrecy(self.url, pairs)
        names = {name.lower() for name, _ in pairs}
        others = (pair for pair in self._headers if pair[0].lower() not in names)
        return msgspec.structs.replace(self, _headers=(*others, *pairs))

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """Return a transport. It does not connect yet: each request does, and can fail on its own.

        Raises: TransportError if the HTTP library is missing; UsageError if the handler is not an `ExchangeHandler`.
        """
        if not isinstance(handler, ExchangeHandler):
            raise UsageError(
                f"the handler of an HTTP transport must be an ExchangeHandler, not {type(handler).__name__}",
                path="handler",
            )
        client = self._make_client() if self._client is None else self._client
        handshake_timeout = HANDSHAKE_RESPONSE_TIMEOUT if self._sign_in_timeout else None
        return HttpTransport(
            sender=Sender(client, self.url, self._headers, self._authorizer, handshake_timeout),
            limit=max_frame_bytes,
            _handler=handler,
            _queue=FrameQueue(asyncio.get_running_loop(), handler),
            _known=self._known,
            _close_step=close_step,
            _max_connections=self._max_connections,
            _owned_client=client if self._client is None else None,
        )


def http(
    url: str,
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    auth: Auth | None = None,
    client: object | None = None,
    proxy: str | None = None,
    verify: bool | ssl.SSLContext = True,
    ca: str | PathLike[str] | None = None,
    connect_timeout: float | None = CONNECT_TIMEOUT,
    max_connections: int = MAX_CONNECTIONS,
    insecure: bool = False,
    name: str = "",
) -> HttpTarget:
    """Return a target for the MCP server at `url`: Streamable HTTP of every revision, or HTTP+SSE of 2024-11-05.

    `auth` is a bearer token, a user name with its password, or an authorizer (`jackstay.oauth`). `client` is an
    aiohttp.ClientSession, an httpx.AsyncClient, or a `jackstay.transport.HttpClient`; you close it, and it has its own
    proxy and TLS settings. Without one, `proxy` is a URL ("" for none; by default according to HTTP_PROXY, HTTPS_PROXY,
    ALL_PROXY and NO_PROXY), `ca` a file or directory of trusted certificates, and `verify=False` disables verification.

    Credentials over plain http to another machine require `insecure=True`.

    Raises: UsageError.
    """
    check_url(url)
    pairs = check_headers(headers)
    fixed = static_credentials(auth)
    _check_limits(max_connections, connect_timeout)
    if not isinstance(name, str):
        raise UsageError(f"name must be a str, not {type(name).__name__}", path="name")
    proxy_url: object = proxy
    if proxy_url and not (isinstance(proxy_url, str) and proxy_url.startswith(("http://", "https://"))):
        # Without the URL, which may contain a password.
        raise UsageError("proxy must be a URL that begins with http:// or https://, or '' for none", path="proxy")
    if client is not None and (proxy is not None or ca is not None or verify is not True):
        raise UsageError(
            "client cannot be combined with proxy, ca or verify; configure them on the client", path="client"
        )
    if not insecure:
        _check_secrecy(url, pairs, has_secrets=bool(auth))
    trusted = trust(verify, ca)
    return HttpTarget(
        url=url,
        # Its host, and its port if the URL has one.
        name=name or url.partition("://")[2].partition("/")[0].partition("?")[0],
        verify=trusted,
        _headers=(*pairs, *(fixed or ())),
        _authorizer=auth if fixed is None and isinstance(auth, Authorizer) else None,
        _client=None if client is None else wrap(client),
        _make_client=partial(default_http_client, verify=trusted, proxy=proxy, connect_timeout=connect_timeout),
        _max_connections=max_connections,
    )


def _check_secrecy(url: str, headers: Headers, *, has_secrets: bool = False) -> None:
    has_secrets = has_secrets or any(header.lower() in CREDENTIALS for header, _ in headers)
    if has_secrets and url.startswith("http:") and not is_loopback(url):
        raise UsageError(
            "url must begin with https:// if credentials are sent; pass insecure=True to send them unencrypted",
            path="url",
        )


def _check_limits(max_connections: object, connect_timeout: object) -> None:
    if type(max_connections) is not int or max_connections < 1:
        message = f"max_connections must be an int of at least 1, not {max_connections!r}"
        raise UsageError(message, path="max_connections")
    is_number = isinstance(connect_timeout, int | float) and not isinstance(connect_timeout, bool)
    # `not (x > 0)` is also true for NaN.
    if connect_timeout is not None and not (is_number and connect_timeout > 0):  # type: ignore[operator]
        message = f"connect_timeout must be a number above 0 or None, not {connect_timeout!r}"
        raise UsageError(message, path="connect_timeout")
