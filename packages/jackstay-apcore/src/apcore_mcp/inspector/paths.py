"""The paths of the inspector, and the rules that each is held to.

| path below the prefix | what |
|---|---|
| GET `` | the page: no data in it, so a token is not asked for; Host and Origin are |
| GET `/api/tools` | the list; GET `/api/tools/{name}` all of one |
| GET `/api/events` | a stream that tells of changes |
| POST `/api/call` | `{"tool", "arguments"}`: the call as lines of JSON, to its end |
| POST `/api/answer` | `{"call", "accepted"}`: a person's approval |
| DELETE `/api/call/{id}` | cancels |

Everything under `/api` wants the endpoint's token where it has one, and comes from our own page or from none. What acts must
be JSON, which a foreign page cannot send unasked, and no answer here lets it ask.

Must never know how a module is run. Above: `pages`. Below: the rest of this room, `admission`, `answers`.
"""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from apcore_mcp.admission import admit, check_names, check_same_origin
from apcore_mcp.answers import (
    Refused,
    answer,
    answer_json,
    answer_refusal,
    begin,
    read_json,
    until_gone,
    write,
)
from apcore_mcp.inspector.calls import Call, Calls, encode
from apcore_mcp.inspector.changes import Changes
from apcore_mcp.inspector.listing import list_tools, whole_of
from apcore_mcp.inspector.page import read_page
from jackstay.protocol.http import RETRY_HEADERS, Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apcore_mcp.catalogue import Catalogue
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server.http import App, Asgi, Principal, Receive, Scope, Send


def routes(
    app: "App", catalogue: "Catalogue", router: "ExecutionRouter", prefix: str = "/inspector"
) -> "Asgi":
    """The inspector of this catalogue as an ASGI app, for the paths from `prefix` on; `app` is the endpoint it stands beside."""
    return Inspector(app, catalogue, router, prefix)


class Inspector:
    """An ASGI 3 application. It answers HTTP alone; the endpoint has the lifespan."""

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
                check_names(self._app, scope)
                if scope["method"] != "HEAD":
                    _only(scope, "GET")
                page = read_page()
                await answer(send, 200, "text/html; charset=utf-8", page.body, page.headers)
            else:
                await self._api(path, scope, receive, send)
        except Refused as error:
            await answer_refusal(send, error.refusal)

    async def _api(self, path: str, scope: "Scope", receive: "Receive", send: "Send") -> None:
        # First who asks, then what: a stranger is not told what there is.
        principal = await admit(self._app, scope)
        refusal = check_same_origin(check_names(self._app, scope))
        if refusal is not None:
            raise Refused(refusal)
        place, _, rest = path.removeprefix("/api/").partition("/")
        verbs, serve = self._places(principal, unquote(rest), scope, receive, send).get(
            (place, bool(rest)), ("", None)
        )
        if serve is None or not path.startswith("/api/"):
            raise Refused(refuse(404, "the inspector has nothing here"))
        _only(scope, verbs)
        await serve()

    def _places(
        self, principal: "Principal", name: str, scope: "Scope", receive: "Receive", send: "Send"
    ) -> "dict[tuple[str, bool], tuple[str, Callable[[], Awaitable[None]]]]":
        """What is at a path, with a name behind it or without, by which verb."""
        return {
            ("tools", False): ("GET", lambda: self._list(send)),
            ("tools", True): ("GET", lambda: self._show(name, send)),
            ("events", False): ("GET", lambda: self._tell(receive, send)),
            ("call", False): ("POST", lambda: self._call(principal, scope, receive, send)),
            ("call", True): ("DELETE", lambda: self._cancel(principal, name, send)),
            ("answer", False): ("POST", lambda: self._answer(principal, scope, receive, send)),
        }

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _list(self, send: "Send") -> None:
        server = self._app.server
        await answer_json(send, list_tools(server.name, server.options.version, self._catalogue))

    async def _show(self, name: str, send: "Send") -> None:
        entry = self._catalogue.find(name)
        if entry is None:
            raise Refused(refuse(404, f"Module not found: {name[:200]}"))
        # A schema may have defaults that are no JSON, as dates; they are shown as their text.
        body = msgspec.json.encode(whole_of(entry), enc_hook=str)
        await answer(send, 200, "application/json", body)

    async def _tell(self, receive: "Receive", send: "Send") -> None:
        if self.changes.is_full or self._app.is_draining:
            raise Refused(_busy("no more pages are told of changes now"))
        await self.changes.carry(receive, send)

    # --- acting -------------------------------------------------------------------------------------------------------

    async def _call(self, principal: "Principal", scope: "Scope", receive: "Receive", send: "Send") -> None:
        asked = await self._read(scope, receive)
        name, arguments = asked.get("tool"), asked.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise Refused(refuse(400, 'a call is {"tool": a name, "arguments": an object}'))
        entry = self._catalogue.find(name)
        if entry is None:
            raise Refused(refuse(404, f"Module not found: {name[:200]}"))
        if self._app.is_draining:
            raise Refused(_busy("the server is shutting down"))
        if self.calls.is_full:
            raise Refused(_busy("too many calls of the inspector are under way"))
        call = Call(entry, arguments, principal)
        self.calls.add(call)
        try:
            await self._carry(call, receive, send)
        finally:
            self.calls.remove(call)

    async def _carry(self, call: Call, receive: "Receive", send: "Send") -> None:
        watching = asyncio.ensure_future(until_gone(receive))
        watching.add_done_callback(lambda _: call.cancel())
        try:
            await begin(send, 200, "application/x-ndjson", (("x-accel-buffering", "no"),))
            async with aclosing(call.lines(self._router)) as lines:
                async for line in lines:
                    await write(send, b"\n" if line is None else encode(line))
            await write(send, b"", is_last=True)
        except OSError:
            pass  # ASGI: how a server may say that the client has gone
        finally:
            watching.cancel()

    async def _cancel(self, principal: "Principal", id: str, send: "Send") -> None:
        call = self.calls.find(id, principal)
        if call is not None:
            call.cancel()
        # One that has just ended is cancelled as well as it can be.
        await answer_json(send, {"cancelled": call is not None})

    async def _answer(self, principal: "Principal", scope: "Scope", receive: "Receive", send: "Send") -> None:
        asked = await self._read(scope, receive)
        call = self.calls.find(asked.get("call"), principal)
        # Only a plain `true` is consent.
        if call is None or not call.answer(asked.get("accepted") is True):
            raise Refused(refuse(404, "nothing is asked by that call"))
        await answer_json(send, {"answered": True})

    async def _read(self, scope: "Scope", receive: "Receive") -> "dict[str, object]":
        kind = check_names(self._app, scope).get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise Refused(refuse(415, "the body must be application/json"))
        limit = self._app.options.max_body_bytes
        return await read_json(receive, self._app.server.options.max_frame_bytes if limit is None else limit)


def _only(scope: "Scope", verb: str) -> None:
    if scope["method"] != verb:
        refusal = refuse(405, f"only {verb} is allowed here")
        raise Refused(msgspec.structs.replace(refusal, headers=(("allow", verb),)))


def _busy(message: str) -> Refusal:
    return msgspec.structs.replace(refuse(503, message), headers=RETRY_HEADERS)


__all__ = ["Inspector", "routes"]
