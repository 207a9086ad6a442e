"""The API of `jackstay inspect`: what the page requests, for one inspection."""

import hmac
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from jackstay.apps import app_of_tool
from jackstay.errors import McpError, UsageError
from jackstay.inspector._app import PageApp, Request, Routes
from jackstay.inspector._apps import AppDocuments, call_for_app
from jackstay.inspector._calls import ToolCall
from jackstay.inspector._events import describe_failure
from jackstay.inspector._faults import FAULTS
from jackstay.inspector._inspection import Choice, ConnectionOptions, Inspection, describe_server
from jackstay.inspector._questions import Answer
from jackstay.inspector._responses import RequestRejected, respond, stream_body
from jackstay.inspector._snippets import FORMATS, Snippet, make_snippet
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import Access, check_access, error_response, fold_headers
from jackstay.server.http import ANONYMOUS, Principal
from jackstay.types import TASKS_EXTENSION, PromptReference, ResourceTemplate, ResourceTemplateReference, Tool

if TYPE_CHECKING:
    from jackstay.client import Client
    from jackstay.server.http import Scope

# The maximum size of a request of the page: a recording to replay is the largest.
MAX_BODY_BYTES: Final = 67_108_864

# The name of the server that replays a recording of the page.
REPLAY: Final = "recording"


# The result of a request as JSON. A handler that returns None has none.
Result: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Request], Awaitable[Result | None]]


class InspectorApi:
    """The routes of an inspection. `token` authorizes the page."""

    def __init__(self, inspection: Inspection, token: str) -> None:
        self.inspection = inspection
        self._token = token
        self._access = Access.allow()
        self._calls: dict[str, ToolCall] = {}
        # The last list, and whether its server has tasks.
        self._listed: dict[str, Tool] = {}
        self._has_tasks = False
        self._documents = AppDocuments()
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def app(self) -> PageApp:
        """Return the ASGI app."""
        return PageApp(
            self._routes(),
            check=self._check,
            authorize=self._authorize,
            max_body_bytes=MAX_BODY_BYTES,
            respond_more=self._documents.respond,
        )

    def close(self) -> None:
        """Delete the recordings that the page has sent."""
        if self._directory is not None:
            self._directory.cleanup()

    def _routes(self) -> Routes:
        results: dict[tuple[str, bool], tuple[str, Handler]] = {
            ("about", False): ("GET", self._about),
            ("tools", False): ("GET", self._list_tools),
            ("tools", True): ("GET", self._show_tool),
            ("call", True): ("DELETE", self._cancel),
            ("start", False): ("POST", self._start),
            ("cancel-task", False): ("POST", self._cancel_task),
            ("app", True): ("GET", self._show_app),
            ("app-call", False): ("POST", self._call_for_app),
            ("resources", False): ("GET", self._list_resources),
            ("read", False): ("POST", self._read),
            ("subscribe", False): ("POST", self._subscribe),
            ("prompts", False): ("GET", self._list_prompts),
            ("prompt", False): ("POST", self._get_prompt),
            ("complete", False): ("POST", self._complete),
            ("answer", False): ("POST", self._answer),
            ("connect", False): ("POST", self._connect),
            ("log-level", False): ("POST", self._set_log_level),
            ("kill", False): ("POST", self._kill),
            ("fault", False): ("POST", self._fault),
            ("replay", False): ("POST", self._replay),
            ("snippet", False): ("POST", self._snippet),
        }
        return {
            ("events", False): ("GET", self._events),
            ("call", False): ("POST", self._call),
            ("messages", True): ("GET", self._message),
            ("recording", False): ("GET", self._recording),
            **{route: (method, partial(_respond_with, handler)) for route, (method, handler) in results.items()},
        }

    # --- access -------------------------------------------------------------------------------------------------------

    def _check(self, scope: "Scope") -> Mapping[str, str]:
        headers: Mapping[str, str] = fold_headers(scope["headers"])
        response = check_access(self._access, headers)
        if response is not None:
            raise RequestRejected(response)
        return headers

    async def _authorize(self, scope: "Scope") -> Principal:
        given = self._check(scope).get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise RequestRejected(error_response(401, "open the URL that was printed in the terminal: it has the key"))
        return ANONYMOUS

    # --- the server ---------------------------------------------------------------------------------------------------

    async def _about(self, _: Request) -> Result:
        inspection = self.inspection
        is_known = inspection.state not in ("new", "closed")
        try:
            server = describe_server(inspection.client) if is_known else None
        except McpError:  # never ready
            server = None
        return {
            "title": "Inspector",
            "is_client": True,
            "last": inspection.events.last,
            "sections": ["tools", "resources", "prompts", "tasks", "messages", "connection"],
            "state": inspection.state,
            "server": server,
            "servers": [
                {"name": row.name, "display": row.display, "isHttp": row.target.is_http}
                for row in inspection.choices.values()
            ],
            "options": inspection.options,
            "versions": list(REVISIONS),
            "formats": list(FORMATS),
            "faults": FAULTS if inspection.faults is not None else {},
            "can_kill": inspection.faults is not None,
            "log_level": inspection.log_level,
        }

    async def _connect(self, request: Request) -> None:
        body = await request.json()
        try:
            options = msgspec.convert(body, ConnectionOptions)
        except msgspec.ValidationError as error:
            raise _bad_request(str(error)) from error
        await self.inspection.connect(options)

    async def _set_log_level(self, request: Request) -> None:
        level: Any = _string(await request.json(), "level")
        inspection = self.inspection
        client = inspection.client
        inspection.log_level = level
        # A stateless server gets the level with each call.
        if level and client.state == "ready" and client.protocol_version < "2026-07-28":
            await client.logging.set_level(level)

    async def _kill(self, _: Request) -> Result:
        return {"killed": self.inspection.faults is not None and self.inspection.faults.kill()}

    async def _fault(self, request: Request) -> None:
        body = await request.json()
        seconds = body.get("seconds", 0)
        if self.inspection.faults is None:
            raise _bad_request("faults need a server that is started as a command")
        if not isinstance(seconds, int | float):
            raise _bad_request("seconds must be a number")
        try:
            self.inspection.faults.arm(_string(body, "fault"), float(seconds))
        except UsageError as error:
            raise _bad_request(str(error)) from error

    # --- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, _: Request) -> Result:
        client = self.inspection.client
        server = describe_server(client)
        tools = await self._fetch_tools(client) if "tools" in server["capabilities"] else {}
        rows = [_row(tool, self._has_tasks) for tool in tools.values()]
        return {"name": server["name"], "version": server["version"], "tools": rows, "skipped": {}}

    async def _fetch_tools(self, client: "Client") -> dict[str, Tool]:
        tools = {tool.name: tool for tool in await client.tools.list(wait_for_ready=False)}
        self._has_tasks = TASKS_EXTENSION in (client.server_capabilities.extensions or {})
        self._listed = tools
        return tools

    async def _show_tool(self, request: Request) -> Result:
        # From the list that the page shows, also while the server starts again: then the page gets a new list, and
        # opens a tool again that has changed. The transcript must not show requests that nobody made.
        tool = self._listed.get(request.name)
        if tool is None:
            tool = (await self._fetch_tools(self.inspection.client)).get(request.name)
        if tool is None:
            raise RequestRejected(error_response(404, f"the server has no tool {request.name[:200]!r}"))
        raw = tool.raw
        details = {"input_schema": raw.get("inputSchema", {}), "output_schema": raw.get("outputSchema", {})}
        more: dict[str, Any] = {"documentation": None, "sensitive": [], "has_tasks": self._has_tasks, "raw": raw}
        return {"row": _row(tool, self._has_tasks), **details, **more}

    async def _call(self, request: Request) -> None:
        body = await request.json()
        arguments, seconds = body.get("arguments", {}), body.get("timeout")
        if not isinstance(arguments, dict) or not (seconds is None or isinstance(seconds, int | float)):
            raise _bad_request('the body must be {"tool": string, "arguments": object, "timeout": number or null}')
        timeout = None if seconds is None else max(0.001, float(seconds))
        inspection = self.inspection
        client, tool = await inspection.settled_client(), _string(body, "tool")
        call = ToolCall(client, tool, arguments, timeout, inspection.log_level)
        self._calls[call.id] = call
        try:
            await stream_body(request.receive, request.send, "application/x-ndjson", call.lines())
        finally:
            del self._calls[call.id]

    async def _cancel(self, request: Request) -> Result:
        call = self._calls.get(request.name)
        if call is not None:
            call.cancel()
        return {"cancelled": call is not None}

    # --- tasks and apps -----------------------------------------------------------------------------------------------

    async def _start(self, request: Request) -> Result:
        body = await request.json()
        tool, arguments = _string(body, "tool"), _object(body, "arguments")
        return await self.inspection.tasks.start(await self.inspection.settled_client(), tool, arguments)

    async def _cancel_task(self, request: Request) -> None:
        await self.inspection.tasks.cancel(_string(await request.json(), "task"))

    async def _show_app(self, request: Request) -> Result:
        app = await self.inspection.client.apps.find(request.name)
        if app is None:
            raise RequestRejected(error_response(404, f"the tool {request.name[:200]!r} has no app"))
        return self._documents.add(app)

    async def _call_for_app(self, request: Request) -> Result:
        body = await request.json()
        tool, arguments = _string(body, "tool"), _object(body, "arguments")
        return {"raw": await call_for_app(self.inspection.client, tool, arguments)}

    # --- resources and prompts ----------------------------------------------------------------------------------------

    async def _list_resources(self, _: Request) -> Result:
        resources = self.inspection.client.resources
        return {
            "resources": [resource.raw for resource in await resources.list(wait_for_ready=False)],
            "templates": [template.raw for template in await resources.templates(wait_for_ready=False)],
            "subscribed": sorted(self.inspection.subscribed),
        }

    async def _read(self, request: Request) -> Result:
        body = await request.json()
        uri = body.get("uri")
        if uri is None:
            try:
                template = ResourceTemplate(name="", uri_template=_string(body, "template"))
                uri = template.expand(body.get("values", {}))
            except UsageError as error:
                raise _bad_request(str(error)) from error
        return {"uri": uri, "raw": (await self.inspection.client.resources.read(str(uri))).raw}

    async def _subscribe(self, request: Request) -> None:
        body = await request.json()
        uri = _string(body, "uri")
        inspection = self.inspection
        if body.get("on") is False:
            await inspection.client.resources.unsubscribe(uri)
            inspection.subscribed.discard(uri)
        else:
            await inspection.client.resources.subscribe(uri)
            inspection.subscribed.add(uri)

    async def _list_prompts(self, _: Request) -> Result:
        return {"prompts": [prompt.raw for prompt in await self.inspection.client.prompts.list(wait_for_ready=False)]}

    async def _get_prompt(self, request: Request) -> Result:
        body = await request.json()
        prompt = await self.inspection.client.prompts.get(_string(body, "name"), body.get("arguments", {}))
        return {"raw": prompt.raw}

    async def _complete(self, request: Request) -> Result:
        body = await request.json()
        argument, value = _string(body, "argument"), _string(body, "value")
        reference: PromptReference | ResourceTemplateReference
        if "prompt" in body:
            reference = PromptReference(name=_string(body, "prompt"))
        else:
            reference = ResourceTemplateReference(uri=_string(body, "template"))
        found = await self.inspection.client.completion.complete(reference, argument, value, body.get("context"))
        return {"values": list(found.values)}

    # --- questions of the server --------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> None:
        body = await request.json()
        id = body.pop("question", None)
        try:
            self.inspection.questions.answer(id, msgspec.convert(body, Answer))
        except (msgspec.ValidationError, UsageError) as error:
            raise _bad_request(str(error)) from error

    # --- messages and recordings --------------------------------------------------------------------------------------

    async def _events(self, request: Request) -> None:
        events = self.inspection.events
        after = request.query.get("after", "0")
        is_same = request.query.get("log") == events.id and after.isdecimal()
        await stream_body(
            request.receive, request.send, "text/event-stream", events.follow(int(after) if is_same else 0)
        )

    async def _message(self, request: Request) -> None:
        line = self.inspection.transcript.find(int(request.name)) if request.name.isdecimal() else None
        if line is None:
            raise RequestRejected(error_response(404, "that message is no longer kept"))
        await respond(request.send, 200, "application/json", line)

    async def _recording(self, request: Request) -> None:
        await respond(request.send, 200, "application/x-ndjson", self.inspection.transcript.save())

    async def _replay(self, request: Request) -> None:
        """Connect to a recording that the page sends."""
        from jackstay.testing import replayed  # noqa: PLC0415  # rarely used

        body = await request.json()
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="jackstay-inspect-")
        path = Path(self._directory.name) / "recording.jsonl"
        path.write_text(_string(body, "recording"), encoding="utf-8")
        try:
            target = replayed(path)
        except UsageError as error:
            raise _bad_request(str(error).replace(str(path), "the recording")) from error
        self.inspection.choices[REPLAY] = Choice(REPLAY, "replay of a recording", target)
        await self.inspection.connect(ConnectionOptions(server=REPLAY))

    async def _snippet(self, request: Request) -> Result:
        body = await request.json()
        params = body.get("params", {})
        client, target = self.inspection.client, self.inspection.choice.target
        chosen = self.inspection.options.version
        version = client.protocol_version if client.state == "ready" else chosen or next(reversed(REVISIONS))
        params = params if isinstance(params, dict) else {}
        try:
            snippet = Snippet(target, _string(body, "method"), params, version, chosen)
            text = make_snippet(_string(body, "format"), snippet)
        except UsageError as error:
            raise _bad_request(str(error)) from error
        return {"text": text}


async def _respond_with(handler: Handler, request: Request) -> None:
    """Respond with the result of a handler, or with the failure of its request to the server."""
    try:
        result = await handler(request)
    except McpError as error:
        result = {"failed": describe_failure(error)}
    await request.respond(result or {})


def _row(tool: Tool, has_tasks: bool) -> dict[str, Any]:
    """Return a tool as the list of the page shows it. `revision` changes with anything that the page shows of it."""
    hints = tool.annotations
    values = {
        "read-only": None if hints is None else hints.read_only_hint,
        "destructive": None if hints is None else hints.destructive_hint,
        "idempotent": None if hints is None else hints.idempotent_hint,
        "open world": None if hints is None else hints.open_world_hint,
    }
    return {
        "name": tool.name,
        "id": tool.name,
        "title": tool.title,
        "description": tool.description or "",
        "tags": [],
        "version": "",
        "is_streaming": False,
        "needs_approval": False,
        "hints": {hint: value for hint, value in values.items() if value is not None},
        "app": app_of_tool(tool),
        "revision": format(hash((msgspec.json.encode(tool.raw), has_tasks)) & 0xFFFFFFFFFFFFFFFF, "x"),
    }


def _string(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _bad_request(f"{name} must be a string")
    return value


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise _bad_request(f"{name} must be an object")
    return value


def _bad_request(message: str) -> RequestRejected:
    return RequestRejected(error_response(400, message))
