"""Sends requests with httpx (extra `openapi`): with the author's client, or with one that is made on first use."""

from typing import Any, TypeAlias

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.openapi._operations import Request
from jackstay.openapi._responses import Response
from jackstay.openapi._sender import SendError

# By domain, path and name.
Cookies: TypeAlias = dict[tuple[str, str, str], Any]

# Exceptions that httpx raises before the first byte of the request is written.
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


class HttpSender:
    """Sends requests with an `httpx.AsyncClient`, or one of httpx2. The author closes a client of their own.

    Raises: UsageError for another object, and without the extra `openapi`.
    """

    def __init__(self, client: Any = None) -> None:
        if client is None:
            _import_httpx()
        elif not hasattr(client, "build_request") or not hasattr(client, "aclose"):
            raise UsageError(f"client must be an httpx.AsyncClient, not {type(client).__name__}", path="client")
        self._given = client
        self._own: Any = None

    @property
    def base_url(self) -> str | None:
        """The base URL of the author's client, if it has one."""
        return None if self._given is None else str(self._given.base_url) or None

    async def send(self, url: str, request: Request, limit: int) -> Response:
        """See `Sender.send`."""
        client = self._client()
        # Unpacking could make a small response very large, so none is accepted.
        rows = [*request.headers, ("Accept-Encoding", "identity")]
        headers = [(name.encode(), value.encode("latin-1")) for name, value in rows]
        before = _by_key(client.cookies.jar)
        try:
            outgoing = client.build_request(request.method, url, headers=headers, content=request.body)
            response = await client.send(outgoing, stream=True, follow_redirects=False)
        except Exception as error:
            raise _send_error(error) from error
        # Callers share the client: a cookie that the API sets for one must not be sent with the request of another.
        _restore(client.cookies.jar, before, _by_key(response.cookies.jar))
        try:
            found = {name.lower(): value for name, value in response.headers.items()}
            encoding = found.get("content-encoding", "identity")
            if encoding != "identity" and request.method != "HEAD":
                raise SendError(f"HTTP {response.status_code} with the unsupported Content-Encoding {encoding[:50]!r}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > limit:
                    raise SendError(f"HTTP {response.status_code}, but the body is larger than {limit} bytes")
            return Response(response.status_code, found, bytes(body))
        except SendError:
            raise
        except Exception as error:
            raise _send_error(error) from error
        finally:
            await response.aclose()

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = _import_httpx().AsyncClient(timeout=None, headers={"User-Agent": "jackstay"})
        return self._own

    async def close(self) -> None:
        """Close the client that was made here."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()


def _by_key(jar: Any) -> Cookies:
    return {(cookie.domain, cookie.path, cookie.name): cookie for cookie in jar}


def _restore(jar: Any, before: Cookies, received: Cookies) -> None:
    """Undo what a response did to the cookies of a client: those that it set, and those that it deleted."""
    now = _by_key(jar)
    for key in received.keys() & now.keys():
        jar.clear(*key)
    for key in before.keys() - (now.keys() - received.keys()):
        jar.set_cookie(before[key])


def _send_error(error: Exception) -> SendError:
    name = type(error).__name__
    return SendError(f"the request failed: {name}: {str(error)[:200]}", was_sent=name not in _NOT_SENT)


def _import_httpx() -> Any:
    try:
        import httpx  # noqa: PLC0415  # optional
    except ImportError as missing:
        raise UsageError(f"from_openapi() needs the extra 'openapi': {install_command('openapi')}") from missing
    return httpx
