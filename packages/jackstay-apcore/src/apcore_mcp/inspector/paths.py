"""The HTTP routes of the inspector.

The page itself needs no token, because it contains no data. Everything below `/api` requires the token of the endpoint
and must come from the page of this server or from no web page. Request bodies must be JSON, which another page cannot
send without a CORS preflight, and no preflight is answered here.
"""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from apcore_mcp.access import authorize, check_host_and_origin, check_same_origin
from apcore_mcp.inspector.calls import Call, Calls, encode
from apcore_mcp.inspector.changes import Changes
from apcore_mcp.inspector.listing import details_of, list_tools
from apcore_mcp.inspector.page import read_page
from apcore_mcp.responses import (
    RequestRejected,
    read_json,
    respond,
    respond_error,
    respond_json,
    start_response,
    wait_for_disconnect,
    write_body,
)
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, error_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apcore_mcp.catalogue import Catalogue
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server.http import App, Asgi, Principal, Receive, Scope, Send


def routes(app: "App", catalogue: "Catalogue", router: "ExecutionRouter", prefix: str = "/inspector") -> "Asgi":
    """Return the inspector of a catalogue as an ASGI app for the paths below `prefix`; `app` is the MCP endpoint."""
    return Inspector(app, catalogue, router, prefix)


class Inspector:
    """An ASGI 3 application for HTTP only; the endpoint handles the lifespan."""

    def __init__(
        self, app: "App", catalogue: "Catalogue", router: "ExecutionRouter", prefix: str = "/inspector"
    ) -> None:
        self.calls = Calls()
        self.changes = Changes(app, catalogue)
        self._app = app
        self._catalogue = catalogue
        self._router = router
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"<Inspector at {self._prefix} {self.calls!r} {self.changes!r}>"

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one request."""
        path: str = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(self._prefix)
        try:
            if path in ("", "/"):
                check_host_and_origin(self._app, scope)
                if scope["method"] != "HEAD":
                    _only(scope, "GET")
                page = read_page()
                await respond(send, 200, "text/html; charset=utf-8", page.body, page.headers)
            else:
                await self._api(path, scope, receive, send)
        except RequestRejected as error:
            await respond_error(send, error.response)

    async def _api(self, path: str, scope: "Scope", receive: "Receive", send: "Send") -> None:
        # Authorization first, so that a stranger does not learn which paths exist.
        principal = await authorize(self._app, scope)
        response = check_same_origin(check_host_and_origin(self._app, scope))
        if response is not None:
            raise RequestRejected(response)
        resource, _, name = path.removeprefix("/api/").partition("/")
        routes = self._routes(principal, unquote(name), scope, receive, send)
        method, serve = routes.get((resource, bool(name)), ("", None))
        if serve is None or not path.startswith("/api/"):
            raise RequestRejected(error_response(404, "no such path in the inspector"))
        _only(scope, method)
        await serve()

    def _routes(
        self, principal: "Principal", name: str, scope: "Scope", receive: "Receive", send: "Send"
    ) -> "dict[tuple[str, bool], tuple[str, Callable[[], Awaitable[None]]]]":
        """Return the method and the handler of each route, by its resource and whether a name follows.

        `POST call` has the body `{"tool", "arguments"}` and streams the call as JSON lines; `POST answer` has the body
        `{"call", "accepted"}`.
        """
        return {
            ("tools", False): ("GET", lambda: self._list(send)),
            ("tools", True): ("GET", lambda: self._show(name, send)),
            ("events", False): ("GET", lambda: self._stream_changes(receive, send)),
            ("call", False): ("POST", lambda: self._call(principal, scope, receive, send)),
            ("call", True): ("DELETE", lambda: self._cancel(principal, name, send)),
            ("answer", False): ("POST", lambda: self._answer(principal, scope, receive, send)),
        }

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _list(self, send: "Send") -> None:
        server = self._app.server
        await respond_json(send, list_tools(server.name, server.options.version, self._catalogue))

    async def _show(self, name: str, send: "Send") -> None:
        entry = self._catalogue.find(name)
        if entry is None:
            raise RequestRejected(error_response(404, f"Module not found: {name[:200]}"))
        # Defaults in a schema may be values that JSON does not have, such as dates; they become strings.
        body = msgspec.json.encode(details_of(entry), enc_hook=str)
        await respond(send, 200, "application/json", body)

    async def _stream_changes(self, receive: "Receive", send: "Send") -> None:
        if self.changes.is_full or self._app.is_draining:
            raise RequestRejected(_busy("too many event streams are open"))
        await self.changes.stream(receive, send)

    # --- acting -------------------------------------------------------------------------------------------------------

    async def _call(self, principal: "Principal", scope: "Scope", receive: "Receive", send: "Send") -> None:
        body = await self._read(scope, receive)
        name, arguments = body.get("tool"), body.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RequestRejected(error_response(400, 'the body must be {"tool": string, "arguments": object}'))
        entry = self._catalogue.find(name)
        if entry is None:
            raise RequestRejected(error_response(404, f"Module not found: {name[:200]}"))
        if self._app.is_draining:
            raise RequestRejected(_busy("the server is shutting down"))
        if self.calls.is_full:
            raise RequestRejected(_busy("too many calls of the inspector are running"))
        call = Call(entry, arguments, principal)
        self.calls.add(call)
        try:
            await self._stream_call(call, receive, send)
        finally:
            self.calls.remove(call)

    async def _stream_call(self, call: Call, receive: "Receive", send: "Send") -> None:
        watching = asyncio.ensure_future(wait_for_disconnect(receive))
        watching.add_done_callback(lambda _: call.cancel())
        try:
            await start_response(send, 200, "application/x-ndjson", (("x-accel-buffering", "no"),))
            async with aclosing(call.lines(self._router)) as lines:
                async for line in lines:
                    await write_body(send, b"\n" if line is None else encode(line))
            await write_body(send, b"", is_last=True)
        except OSError:
            pass  # ASGI: a server may raise OSError when the client has disconnected
        finally:
            watching.cancel()

    async def _cancel(self, principal: "Principal", id: str, send: "Send") -> None:
        call = self.calls.find(id, principal)
        if call is not None:
            call.cancel()
        # A call that has just ended is not an error.
        await respond_json(send, {"cancelled": call is not None})

    async def _answer(self, principal: "Principal", scope: "Scope", receive: "Receive", send: "Send") -> None:
        body = await self._read(scope, receive)
        call = self.calls.find(body.get("call"), principal)
        # Only `true` is consent.
        if call is None or not call.answer(body.get("accepted") is True):
            raise RequestRejected(error_response(404, "that call has no open prompt"))
        await respond_json(send, {"answered": True})

    async def _read(self, scope: "Scope", receive: "Receive") -> "dict[str, object]":
        kind = check_host_and_origin(self._app, scope).get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise RequestRejected(error_response(415, "the body must be application/json"))
        limit = self._app.options.max_body_bytes
        return await read_json(receive, self._app.server.options.max_frame_bytes if limit is None else limit)


def _only(scope: "Scope", method: str) -> None:
    if scope["method"] != method:
        response = error_response(405, f"only {method} is allowed here")
        raise RequestRejected(msgspec.structs.replace(response, headers=(("allow", method),)))


def _busy(message: str) -> ErrorResponse:
    return msgspec.structs.replace(error_response(503, message), headers=RETRY_HEADERS)


__all__ = ["Inspector", "routes"]
