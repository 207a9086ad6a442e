"""The tools as an MCP server.

A success is one text block of JSON. The short results of `resolve_library` and `search_docs` are also
`structuredContent` on revisions that have it; tables of contents and pages are not sent twice. A failure is the error
envelope with `isError`, also for invalid arguments. An unknown tool or malformed JSON-RPC is a protocol error.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.server import Context, InvalidArguments, Next, ResourceNotFoundError, Server
from jackstay.types import CallToolResult, TextContent
from procontext._version import __version__
from procontext.errors import CATALOGUE, ProContextError, RegistryError, failure
from procontext.tools import _session as session
from procontext.tools._arguments import (
    IndexArguments,
    PageArguments,
    ResolveArguments,
    SearchArguments,
    read_arguments,
)
from procontext.tools._schemas import (
    GET_LIBRARY_DOCS,
    INSTRUCTIONS,
    READ_PAGE,
    RESOLVE_LIBRARY,
    SEARCH_DOCS,
    ToolRow,
)
from procontext.tools._tools import Tools

logger = logging.getLogger("procontext.tools")

# Called at the end of a tool call with the tool, `ok` or the error code, and the duration in seconds.
Count: TypeAlias = Callable[[str, str, float], object]

# Tools whose results are long. With an output schema, each would be sent as text and as structured content.
_TEXTS = (GET_LIBRARY_DOCS, READ_PAGE)

# The implementation of one tool.
ToolFunction: TypeAlias = Callable[[dict[str, Json], Context], Awaitable[msgspec.Struct]]


def envelope(error: ProContextError) -> dict[str, Json]:
    """Return the error envelope of a failed tool call."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "suggestion": error.suggestion,
            "recoverable": error.recoverable,
        }
    }


def _refusal(error: ProContextError) -> CallToolResult:
    text = msgspec.json.encode(envelope(error)).decode()
    return CallToolResult(content=(TextContent(text=text),), is_error=True)


def make_server(tools: Tools, count: Count | None = None) -> Server:
    """Return a server with the tools and the session resource; `count` is called after every tool call."""
    server = Server(
        "procontext",
        version=__version__,
        title="ProContext",
        instructions=INSTRUCTIONS,
        on_invalid_arguments=_refuse_arguments,
        middleware=(_hide_session_resource,),
    )

    async def resolve(given: dict[str, Json], context: Context) -> msgspec.Struct:
        found = await tools.resolve_library(read_arguments(ResolveArguments, given).query)
        if session.has_session(context.version):
            session.record_matches(context.store, found.matches)
        return found

    async def index(given: dict[str, Json], _: Context) -> msgspec.Struct:
        arguments = read_arguments(IndexArguments, given)
        return await tools.get_library_docs(**msgspec.structs.asdict(arguments))

    async def page(given: dict[str, Json], _: Context) -> msgspec.Struct:
        arguments = read_arguments(PageArguments, given)
        return await tools.read_page(**msgspec.structs.asdict(arguments))

    async def search(given: dict[str, Json], _: Context) -> msgspec.Struct:
        arguments = read_arguments(SearchArguments, given)
        return await tools.search_docs(**msgspec.structs.asdict(arguments))

    # resolve_library uses local data only; the others may send requests to documentation sites.
    _add(server, RESOLVE_LIBRARY, resolve, count, open_world=False)
    _add(server, GET_LIBRARY_DOCS, index, count, open_world=True)
    _add(server, READ_PAGE, page, count, open_world=True)
    _add(server, SEARCH_DOCS, search, count, open_world=True)

    @server.resource(session.URI, name=session.NAME, description=session.DESCRIPTION, mime_type="application/json")
    def session_libraries(context: Context) -> str:
        if not session.has_session(context.version):
            raise ResourceNotFoundError("this protocol revision has no sessions")
        return session.resolved_as_json(context.store)

    return server


def _add(server: Server, row: ToolRow, work: ToolFunction, count: Count | None, *, open_world: bool) -> None:
    async def handle(given: dict[str, Json], context: Context) -> object:
        began = time.perf_counter()
        outcome = "INTERNAL"
        try:
            answer: object = await work(given, context)
            if row in _TEXTS:
                answer = CallToolResult(content=(TextContent(text=msgspec.json.encode(answer).decode()),))
            outcome = "ok"
        except ProContextError as error:
            answer, outcome = _refusal(error), error.code
            if CATALOGUE[error.code].recoverable:  # a site failed, not the agent; /status lists it
                logger.warning("fetch_failed: %s: %s", row.name, error.message)
        except RegistryError as error:
            logger.error("registry_unusable: %s", error)
            missing = failure("LIBRARY_NOT_FOUND", str(given.get("library_id", "")), str(error))
            answer, outcome = _refusal(missing), missing.code
        finally:
            if count is not None:
                count(row.name, outcome, time.perf_counter() - began)
        return answer

    server.add_tool(
        row.name,
        title=row.title,
        description=row.description,
        input_schema=row.input_schema,
        output_schema=None if row in _TEXTS else row.output_schema,
        handler=handle,
        validate=False,  # the tool validates its arguments itself, and its results need no validation
        read_only=True,
        idempotent=True,
        open_world=open_world,
    )


def _refuse_arguments(_: str, invalid: InvalidArguments) -> CallToolResult:
    return _refusal(failure("INVALID_INPUT", "; ".join(map(str, invalid.problems))))


async def _hide_session_resource(context: Context, call_next: Next) -> bytes:
    """Remove the session resource from resources/list on revisions without sessions (2026-07-28)."""
    response = await call_next()
    if context.method != "resources/list" or session.has_session(context.version):
        return response
    result: dict[str, Any] = msgspec.json.decode(response)
    result["resources"] = [row for row in result["resources"] if row["uri"] != session.URI]
    return msgspec.json.encode(result)


__all__ = ["envelope", "make_server"]
