"""A server as a URL: `http("https://example.org/mcp")` says how to reach it, whatever revision and transport it speaks.

Nothing is connected before `open()`; mistakes that can be seen without that are refused at once. Credentials go only where
nobody can read them on the way: over https, or to this machine.

Must never know what is said to the server. Above: the client. Below: `_transport`, `_clients`, `_auth`, `_urls`.
"""

import ssl
from collections.abc import Iterable, Mapping
from copy import copy
from os import PathLike
from typing import Final

from jackstay.errors import UsageError
from jackstay.transport._contract import ExchangeOwner, Owner, Transport
from jackstay.transport.http._auth import CREDENTIALS, Auth, Credentials, check_headers, static_credentials
from jackstay.transport.http._clients import CONNECT_TIMEOUT, default_http_client, trust, wrap
from jackstay.transport.http._contract import Authorizer, Headers, HttpClient
from jackstay.transport.http._sending import Sender
from jackstay.transport.http._transport import HttpTransport, Memory
from jackstay.transport.http._urls import check_url, is_loopback

# Requests under way at once; more wait here. A process may have 1,024 files open on most systems, and has others to open.
MAX_CONNECTIONS: Final = 100


# What a start may take besides the sign-in: the usual `init_timeout`.
BESIDE_SIGN_IN: Final = 10.0

# How long a server may take to begin its answer to the handshake, where a start has the time of a sign-in: people are
# waited for, and not a server that is down. Longer than a start usually has, for those that come up slowly.
BEGIN_SECONDS: Final = 30.0


class HttpTarget:
    """A URL that speaks MCP. Made by `http()`; each `open()` begins a session of its own."""

    is_http = True

    def __init__(
        self,
        url: str,
        *,
        name: str,
        headers: Headers,
        authorizer: Authorizer | None,
        client: HttpClient | None,
        proxy: str | None,
        verify: bool | ssl.SSLContext,
        connect_timeout: float | None,
        max_connections: int,
    ) -> None:
        self.url = url
        self.name = name
        self._headers = tuple(headers)
        self._authorizer = authorizer
        self._client = client
        self._proxy = proxy
        self._verify = verify
        self._connect_timeout = connect_timeout
        self._max_connections = max_connections
        self._memory = Memory()

    def __repr__(self) -> str:
        # Header values are never shown, and neither is a query, which may hold a token.
        shown, question, _ = self.url.partition("?")
        return f"<{self.__class__.__name__} {self.name}: {shown}{question and '?...'}>"

    @property
    def init_timeout(self) -> float | None:
        """As long as any other; and as long as people take to sign in, where the authorizer may have to ask them.

        Without that, a start that runs out of time would close the connections in which the sign-in is to be finished,
        and the next would open another page.
        """
        return BESIDE_SIGN_IN + self._patience if self._patience else None

    @property
    def _patience(self) -> float:
        patience: float = getattr(self._authorizer, "patience", 0.0)
        return patience

    @property
    def verify(self) -> bool | ssl.SSLContext:
        """What certificates are checked against: whoever else asks this server trusts the same."""
        return self._verify

    @property
    def has_credentials(self) -> bool:
        """True where requests carry some: an authorizer is asked, or a header of yours is one."""
        return self._authorizer is not None or any(name.lower() in CREDENTIALS for name, _ in self._headers)

    def authorized_by(self, authorizer: Authorizer) -> "HttpTarget":
        """The same server, asked with the credentials that `authorizer` holds."""
        target = copy(self)
        target._authorizer = authorizer
        return target

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """Be ready to send. Nothing is connected yet: each request does that, and can fail for itself.

        Raises: TransportError where the HTTP library is missing; UsageError for an owner that cannot hear of single requests.
        """
        if not isinstance(owner, ExchangeOwner):
            raise UsageError("the owner of an HTTP transport must be an ExchangeOwner", path="owner")
        own = None
        if self._client is None:
            own = default_http_client(
                verify=self._verify, proxy=self._proxy, connect_timeout=self._connect_timeout
            )
        credentials = None if self._authorizer is None else Credentials(self._authorizer)
        client = self._client or own
        assert client is not None  # one of the two
        return HttpTransport(
            Sender(client, self.url, self._headers, credentials, BEGIN_SECONDS if self._patience else None),
            owner,
            self._memory,
            limit=max_frame_bytes,
            close_step=close_step,
            max_connections=self._max_connections,
            owned_client=own,
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
    """A target that speaks to the MCP server at `url`: Streamable HTTP of every revision, or HTTP+SSE of 2024-11-05.

    `auth` is a bearer token, a name with its password, or an authorizer (`jackstay.oauth`). `client` is an
    aiohttp.ClientSession, an httpx.AsyncClient, or anything with `send()` and `close()` (`jackstay.transport.HttpClient`); it stays
    yours to close, and brings its own proxy and trust. Without one, `proxy` is a URL ("" for none; by default as HTTPS_PROXY
    and its kin say), `ca` a file or directory of certificates to trust, `verify=False` trusts anybody.

    Credentials over plain http to another machine are refused unless `insecure=True`.

    Raises: UsageError.
    """
    check_url(url)
    pairs = check_headers(headers)
    fixed = static_credentials(auth)
    _check_limits(max_connections, connect_timeout)
    if not isinstance(name, str):
        raise UsageError(f"name must be text, not {name!r}", path="name")
    if proxy:
        _check_proxy(proxy)
    if client is not None and (proxy is not None or ca is not None or verify is not True):
        raise UsageError("client brings its own proxy and trust: set them there", path="client")
    has_secrets = bool(auth) or any(header.lower() in CREDENTIALS for header, _ in pairs)
    if has_secrets and url.startswith("http:") and not is_loopback(url) and not insecure:
        raise UsageError(
            "credentials over plain http can be read by everybody on the way: use https, or pass insecure=True",
            path="url",
        )
    return HttpTarget(
        url,
        name=name or _name_of(url),
        headers=(*pairs, *(fixed or ())),
        authorizer=auth if fixed is None and isinstance(auth, Authorizer) else None,
        client=None if client is None else wrap(client),
        proxy=proxy,
        verify=trust(verify, ca),
        connect_timeout=connect_timeout,
        max_connections=max_connections,
    )


def _check_limits(max_connections: object, connect_timeout: object) -> None:
    if type(max_connections) is not int or max_connections < 1:
        message = f"max_connections must be a whole number from 1, not {max_connections!r}"
        raise UsageError(message, path="max_connections")
    is_number = isinstance(connect_timeout, int | float) and not isinstance(connect_timeout, bool)
    if connect_timeout is not None and not (is_number and connect_timeout > 0):  # type: ignore[operator]  # NaN is not above anything
        message = f"connect_timeout must be a number above 0, or None, not {connect_timeout!r}"
        raise UsageError(message, path="connect_timeout")


def _check_proxy(proxy: object) -> None:
    """Raises: UsageError, without the proxy itself: it may hold a password."""
    if not isinstance(proxy, str) or not proxy.startswith(("http://", "https://")):
        raise UsageError("proxy must be an http or https URL, or empty for none", path="proxy")


def _name_of(url: str) -> str:
    """What the server is called: its host, and its port where it has one of its own."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0]
