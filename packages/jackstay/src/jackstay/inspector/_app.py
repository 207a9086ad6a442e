"""The ASGI app of an inspector: the page, its files, and an API below `/api` with access control.

The page needs no token, because it contains no data. The API requires a token, and requests must come from the page of
this server or from no web page. Request bodies must be JSON, which another page cannot send without a CORS preflight,
and no preflight is answered here.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

from jackstay.inspector._page import respond_page
from jackstay.inspector._responses import RequestRejected, read_json, respond, respond_error
from jackstay.protocol.http import LOCAL_HOSTS, ErrorResponse, error_response
from jackstay.server.http import Principal, Receive, Scope, Send

# Returns the headers of a request after checking its Host and Origin. Raises: RequestRejected.
Check: TypeAlias = Callable[[Scope], Mapping[str, str]]

# Returns the principal of a request. Raises: RequestRejected.
Authorize: TypeAlias = Callable[[Scope], Awaitable[Principal]]

# Responds to a path that is not part of the page, or returns False.
RespondMore: TypeAlias = Callable[[Send, str], Awaitable[bool]]

# What reverse proxies add (RFC 7239, RFC 9110 section 7.6.3, and the usual ones before them).
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_FOREIGN: Final = "only the inspector's own page may send this request"


class Request:
    """One request to the API. `name` is the part of the path after the resource, or empty."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        name: str,
        headers: Mapping[str, str],
        principal: Principal,
        max_body_bytes: int,
    ) -> None:
        self.receive = receive
        self.send = send
        self.name = name
        self.principal = principal
        self.host = headers.get("host", "")
        self.client = scope.get("client")
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        self.headers = headers
        self._max_body_bytes = max_body_bytes

    @property
    def is_local(self) -> bool:
        """Whether the page is on this machine: by the address of the client and by the name that it used.

        Requests that a reverse proxy passed on are not, though they come from its address: it must add a header.
        """
        name = self.host.rpartition(":")[0] or self.host
        is_direct = not any(header in self.headers for header in _PROXY_HEADERS)
        return is_direct and (self.client or ("",))[0] in ("127.0.0.1", "::1") and name.lower() in LOCAL_HOSTS

    async def json(self) -> dict[str, Any]:
        """Return the body. Raises: RequestRejected if it is not a JSON object of the allowed size."""
        kind = self.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise RequestRejected(error_response(415, "the body must be application/json"))
        return await read_json(self.receive, self._max_body_bytes)

    async def respond(self, value: object) -> None:
        """Respond with JSON. Values that JSON does not have, such as dates in a schema, become strings."""
        await respond(self.send, 200, "application/json", msgspec.json.encode(value, enc_hook=str))


# The method and the handler of each route, by its resource and whether a name follows.
Routes: TypeAlias = Mapping[tuple[str, bool], tuple[str, Callable[[Request], Awaitable[None]]]]


class PageApp:
    """An ASGI 3 application for HTTP, for the paths below `prefix`."""

    def __init__(
        self,
        routes: Routes,
        *,
        check: Check,
        authorize: Authorize,
        prefix: str = "",
        max_body_bytes: int,
        respond_more: "RespondMore | None" = None,
    ) -> None:
        self._routes = routes
        self._check = check
        self._authorize = authorize
        self._prefix = prefix
        self._max_body_bytes = max_body_bytes
        self._respond_more = respond_more

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._prefix or '/'}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path: str = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(self._prefix)
        try:
            if path.startswith("/api/"):
                await self._serve_api(path.removeprefix("/api/"), scope, receive, send)
                return
            self._check(scope)
            if path in ("", "/") and scope["method"] != "HEAD":
                only(scope, "GET")
            if self._respond_more is not None and await self._respond_more(send, path):
                return
            if not await respond_page(send, path, self._prefix.rpartition("/")[2]):
                await self._authorize(scope)  # the response does not reveal which paths exist
                raise RequestRejected(error_response(404, "no such path in the inspector"))
        except RequestRejected as error:
            await respond_error(send, error.response)

    async def _serve_api(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        # Authorization first, so that the response does not reveal which paths exist.
        principal = await self._authorize(scope)
        headers = self._check(scope)
        response = check_same_origin(headers)
        if response is not None:
            raise RequestRejected(response)
        resource, _, name = path.partition("/")
        method, serve = self._routes.get((resource, bool(name)), ("", None))
        if serve is None:
            raise RequestRejected(error_response(404, "no such path in the inspector"))
        only(scope, method)
        size = self._max_body_bytes
        request = Request(
            scope, receive, send, name=unquote(name), headers=headers, principal=principal, max_body_bytes=size
        )
        await serve(request)


def only(scope: Scope, method: str) -> None:
    """Raises: RequestRejected for any other HTTP method."""
    if scope["method"] != method:
        response = error_response(405, f"only {method} is allowed here")
        raise RequestRejected(msgspec.structs.replace(response, headers=(("allow", method),)))


def check_same_origin(headers: Mapping[str, str]) -> ErrorResponse | None:
    """Return the error response for a request from another web page, or None.

    Browsers send Fetch Metadata, and Origin with everything but simple reads. Other programs send neither.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    # "none" is a URL that the user typed.
    if site not in ("same-origin", "none"):
        return error_response(403, _FOREIGN)
    # Browsers omit the default port in both headers.
    if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
        return error_response(403, _FOREIGN)
    return None
