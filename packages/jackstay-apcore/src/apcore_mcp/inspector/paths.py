"""The API of the inspector page for a registry. The page itself is that of `jackstay.inspector`.

Everything below `/api` requires the token of the endpoint.
"""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from apcore_mcp.access import authorize, check_host_and_origin
from apcore_mcp.inspector.calls import Call, Calls, encode, problems_of
from apcore_mcp.inspector.changes import Changes
from apcore_mcp.inspector.listing import describe_start, details_of, endpoint_url, list_tools
from apcore_mcp.inspector.messages import Messages, View
from jackstay.errors import UsageError
from jackstay.inspector import (
    FORMATS,
    PageApp,
    Request,
    RequestRejected,
    Routes,
    Snippet,
    make_snippet,
    respond,
    start_response,
    wait_for_disconnect,
    write_body,
)
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import RETRY_HEADERS, ErrorResponse, error_response
from jackstay.server.http import ANONYMOUS
from jackstay.transport.http import http
from jackstay.types import ResourceTemplate

if TYPE_CHECKING:
    from collections.abc import Callable

    from apcore_mcp.catalogue import Catalogue, Entry
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server.http import App


def routes(
    app: "App",
    catalogue: "Catalogue",
    router: "ExecutionRouter",
    prefix: str = "/inspector",
    *,
    may_call: bool = True,
    metrics: "Callable[[], bytes] | None" = None,
) -> "Inspector":
    """Return the inspector of a catalogue as an ASGI app for the paths below `prefix`; `app` is the MCP endpoint.

    `metrics` returns the metrics in the text format of Prometheus, for a section of their own.
    """
    return Inspector(app, catalogue, router, prefix, may_call=may_call, metrics=metrics)


class Inspector(PageApp):
    """An ASGI 3 application for HTTP only; the endpoint handles the lifespan."""

    def __init__(
        self,
        app: "App",
        catalogue: "Catalogue",
        router: "ExecutionRouter",
        prefix: str = "/inspector",
        *,
        may_call: bool = True,
        metrics: "Callable[[], bytes] | None" = None,
    ) -> None:
        self.calls = Calls()
        self.changes = Changes(app, catalogue)
        self.messages = Messages(app, catalogue)
        self._app = app
        self._catalogue = catalogue
        self._router = router
        self._may_call = may_call
        self._metrics = metrics
        limit = app.options.max_body_bytes
        super().__init__(
            self._table(),
            check=lambda scope: check_host_and_origin(app, scope),
            authorize=lambda scope: authorize(app, scope),
            prefix=prefix,
            max_body_bytes=app.server.options.max_frame_bytes if limit is None else limit,
        )

    def __repr__(self) -> str:
        return f"<Inspector at {self._prefix} {self.calls!r} {self.changes!r}>"

    def _table(self) -> Routes:
        """`POST call` has the body `{"tool", "arguments"}` and streams the call as JSON lines; `POST answer` has the
        body `{"call", "accepted"}`.
        """
        return {
            ("about", False): ("GET", self._about),
            ("tools", False): ("GET", self._list),
            ("tools", True): ("GET", self._show),
            ("events", False): ("GET", self._stream_changes),
            ("call", False): ("POST", self._call),
            ("call", True): ("DELETE", self._cancel),
            ("answer", False): ("POST", self._answer),
            ("validate", False): ("POST", self._validate),
            ("snippet", False): ("POST", self._snippet),
            ("metrics", False): ("GET", self._show_metrics),
            ("resources", False): ("GET", self._list_resources),
            ("read", False): ("POST", self._read),
            ("messages", True): ("GET", self._message),
            ("recording", False): ("GET", self._recording),
        }

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _about(self, request: Request) -> None:
        sections = ["tools", "resources"]
        if self.messages.may_see(request):
            sections.append("messages")
            if request.is_local:
                sections.append("log")
        if self._metrics is not None:
            sections.append("metrics")
        await request.respond(
            {
                "title": "Tool Inspector",
                "sections": sections,
                "takes_key": self._app.guard is not None,
                "formats": list(FORMATS),
                "can_validate": True,
                "may_call": self._may_call,
                "start": describe_start(self._app, request.host),
            }
        )

    async def _list(self, request: Request) -> None:
        server = self._app.server
        await request.respond(list_tools(server.name, server.options.version, self._catalogue))

    async def _show(self, request: Request) -> None:
        await request.respond(details_of(self._find(request.name)))

    async def _stream_changes(self, request: Request) -> None:
        if self.changes.is_full or self._app.is_draining:
            raise RequestRejected(_busy("too many event streams are open"))
        view = self.messages.view(request)
        if view is None:
            await self.changes.stream(request.receive, request.send)
            return
        number = _number(request.query.get("after", "")) if request.query.get("log") == view.events.id else None
        await self.changes.stream(request.receive, request.send, view.events, number or 0)

    async def _list_resources(self, request: Request) -> None:
        found: dict[str, Any] = {"resources": [], "templates": [], "subscribed": []}
        for name, key in (("resources", "resources"), ("templates", "resourceTemplates")):
            method = f"resources/{'' if name == key else 'templates/'}list"
            cursor: dict[str, Any] = {}
            while True:
                answer = await self.messages.send(request, method, cursor)
                if "failed" in answer:
                    await request.respond(answer)
                    return
                found[name] += answer["raw"].get(key, [])
                if not answer["raw"].get("nextCursor"):
                    break
                cursor = {"cursor": answer["raw"]["nextCursor"]}
        await request.respond(found)

    async def _read(self, request: Request) -> None:
        body = await request.json()
        uri, template, values = body.get("uri"), body.get("template"), body.get("values", {})
        if isinstance(template, str) and isinstance(values, dict):
            try:
                uri = ResourceTemplate(name="", uri_template=template).expand(values)
            except UsageError as error:
                raise RequestRejected(error_response(400, str(error))) from error
        if not isinstance(uri, str):
            raise RequestRejected(error_response(400, 'the body must be {"uri"} or {"template", "values"}'))
        await request.respond({"uri": uri, **await self.messages.send(request, "resources/read", {"uri": uri})})

    async def _message(self, request: Request) -> None:
        view, number = self._view(request), _number(request.name)
        line = None if number is None else view.transcript.find(number)
        if line is None:
            raise RequestRejected(error_response(404, "that message is no longer kept"))
        await respond(request.send, 200, "application/json", line)

    async def _recording(self, request: Request) -> None:
        await respond(request.send, 200, "application/x-ndjson", self._view(request).transcript.save())

    def _view(self, request: Request) -> View:
        view = self.messages.view(request)
        if view is None:
            raise RequestRejected(error_response(403, "only pages on this machine or with a key may see the messages"))
        return view

    # --- acting -------------------------------------------------------------------------------------------------------

    async def _call(self, request: Request) -> None:
        if not self._may_call:
            raise RequestRejected(error_response(403, "this server does not allow calls from the inspector"))
        entry, arguments = await self._read_call(request)
        if self._app.is_draining:
            raise RequestRejected(_busy("the server is shutting down"))
        if self.calls.is_full:
            raise RequestRejected(_busy("too many calls of the inspector are running"))
        # Callers with a key, and pages on this machine, may see the code of the modules.
        shows_traceback = request.is_local or request.principal != ANONYMOUS
        call = Call(entry, arguments, request.principal, shows_traceback=shows_traceback)
        self.calls.add(call)
        try:
            await self._stream_call(call, request)
        finally:
            self.calls.remove(call)

    async def _stream_call(self, call: Call, request: Request) -> None:
        send = request.send
        record = self.messages.record_call(request.principal.id, call.entry.name, call.arguments)
        watching = asyncio.ensure_future(wait_for_disconnect(request.receive))
        watching.add_done_callback(lambda _: call.cancel())
        try:
            await start_response(send, 200, "application/x-ndjson", (("x-accel-buffering", "no"),))
            async with aclosing(call.lines(self._router)) as lines:
                async for line in lines:
                    record(line)
                    await write_body(send, b"\n" if line is None else encode(line))
            await write_body(send, b"", is_last=True)
        except OSError:
            pass  # ASGI: a server may raise OSError when the client has disconnected
        finally:
            watching.cancel()

    async def _cancel(self, request: Request) -> None:
        call = self.calls.find(request.name, request.principal)
        if call is not None:
            call.cancel()
        # A call that has just ended is not an error.
        await request.respond({"cancelled": call is not None})

    async def _answer(self, request: Request) -> None:
        body = await request.json()
        call = self.calls.find(body.get("call"), request.principal)
        # Only `true` is consent.
        if call is None or not call.answer(body.get("accepted") is True):
            raise RequestRejected(error_response(404, "that call has no open prompt"))
        await request.respond({"answered": True})

    async def _validate(self, request: Request) -> None:
        """Respond with the invalid arguments of a call, without running it."""
        entry, arguments = await self._read_call(request)
        await request.respond({"problems": problems_of(entry, arguments)})

    async def _snippet(self, request: Request) -> None:
        """Respond with a request to the endpoint as text to copy."""
        body = await request.json()
        method, params, format = body.get("method"), body.get("params"), body.get("format")
        if not isinstance(method, str) or not isinstance(params, dict) or not isinstance(format, str):
            message = 'the body must be {"format": string, "method": string, "params": object}'
            raise RequestRejected(error_response(400, message))
        try:
            target = http(endpoint_url(self._app, request.host))
            text = make_snippet(format, Snippet(target, method, params, max(REVISIONS)))
        except UsageError as error:
            raise RequestRejected(error_response(400, str(error))) from error
        await request.respond({"text": text})

    async def _show_metrics(self, request: Request) -> None:
        await request.respond({"text": "" if self._metrics is None else self._metrics().decode()})

    async def _read_call(self, request: Request) -> "tuple[Entry, dict[str, Any]]":
        body = await request.json()
        name, arguments = body.get("tool"), body.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RequestRejected(error_response(400, 'the body must be {"tool": string, "arguments": object}'))
        return self._find(name), arguments

    def _find(self, name: str) -> "Entry":
        entry = self._catalogue.find(name)
        if entry is None:
            raise RequestRejected(error_response(404, f"Module not found: {name[:200]}"))
        return entry


def _number(text: str) -> int | None:
    """Return a number of an event or a message, or None. `int()` raises ValueError for more than 4,300 digits."""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _busy(message: str) -> ErrorResponse:
    return msgspec.structs.replace(error_response(503, message), headers=RETRY_HEADERS)


__all__ = ["Inspector", "routes"]
