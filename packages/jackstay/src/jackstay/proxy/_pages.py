"""The metrics and the status page of a proxy over HTTP.

Both apply the same checks of `Host`, `Origin` and credentials as the MCP endpoint, because lines of standard error may
contain secrets.
"""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from jackstay.protocol.http import ErrorResponse, check_access, fold_headers
from jackstay.proxy._report import CSS

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

METRICS_PATH: Final = "/metrics"
STATUS_PATH: Final = "/"

# No scripts, no external resources, no framing.
_STYLE: Final = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE}'; frame-ancestors 'none'; base-uri 'none'"

_HEADERS: Final = {
    METRICS_PATH: ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),),
    STATUS_PATH: ((b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", _POLICY.encode())),
}

# Returns the text of one page.
Page = Callable[[], Awaitable[str]]


class Pages:
    """An ASGI app that serves these pages by path, and forwards everything else to `rest`; by default to `app`."""

    def __init__(self, app: "App", pages: Mapping[str, Page], rest: "Asgi | None" = None) -> None:
        self._app = app
        self._pages = pages
        self._rest: Asgi = app if rest is None else rest

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Handle one ASGI 3 scope."""
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        page = self._pages.get(scope["path"]) if is_read else None
        if page is None:
            await self._rest(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        common = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        if refusal is None:
            status, body = 200, (await page()).encode()
            headers = [*_HEADERS[scope["path"]], *common]
        else:
            status, body = refusal.status, f"{refusal.message}\n".encode()
            more = [(name.encode(), value.encode()) for name, value in refusal.headers]
            headers = [(b"content-type", b"text/plain; charset=utf-8"), *common, *more]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _refusal(self, scope: "Scope") -> ErrorResponse | None:
        headers = fold_headers(scope["headers"])
        refusal = check_access(self._app.access, headers)
        if refusal is None and self._app.guard is not None:
            admitted = await self._app.guard.authenticate(scope["method"], scope["path"], headers)
            refusal = admitted if isinstance(admitted, ErrorResponse) else None
        return refusal
