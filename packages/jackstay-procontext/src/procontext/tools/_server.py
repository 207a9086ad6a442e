"""The tools as an MCP server: names and schemas hooked up to functions, failures turned into the envelope of 6.1.

Success is one text block of JSON, and `structuredContent` beside it on revisions that have it (`jackstay.server` does both). A
failed argument check, also one of arguments that are no object, is the envelope with `INVALID_INPUT`; an unknown tool or
malformed JSON-RPC stays a protocol error.

Must never know a socket or a setting. Above: `app`. Below: `_tools`, `_schemas`, `_arguments`, `_session`, `jackstay.server`.
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
from procontext.errors import ProContextError, RegistryError, failure
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

# Told of a call that ended: the tool, `ok` or a code, and how many seconds it took.
Count: TypeAlias = Callable[[str, str, float], object]

# What one tool does with its arguments.
Work: TypeAlias = Callable[[dict[str, Json], Context], Awaitable[msgspec.Struct]]


def envelope(error: ProContextError) -> dict[str, Json]:
    """Reference, 6.1."""
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
    """A server that offers the tools and the session's list of libraries; `count` hears of every call that ended."""
    server = Server(
        "procontext",
        version=__version__,
        title="ProContext",
        instructions=INSTRUCTIONS,
        on_invalid_arguments=_refuse_arguments,
        middleware=(_hide_session_where_there_is_none,),
    )

    async def resolve(given: dict[str, Json], context: Context) -> msgspec.Struct:
        found = await tools.resolve_library(read_arguments(ResolveArguments, given).query)
        if session.has_session(context.version):
            session.remember(context.store, found.matches)
        return found

    async def index(given: dict[str, Json], _: Context) -> msgspec.Struct:
        asked = read_arguments(IndexArguments, given)
        return await tools.get_library_docs(asked.library_id, asked.offset, asked.limit)

    async def page(given: dict[str, Json], _: Context) -> msgspec.Struct:
        asked = read_arguments(PageArguments, given)
        return await tools.read_page(asked.url, asked.offset, asked.limit, asked.heading)

    async def search(given: dict[str, Json], _: Context) -> msgspec.Struct:
        asked = read_arguments(SearchArguments, given)
        return await tools.search_docs(asked.library_id, asked.query, asked.limit)

    # Names are looked up in memory; the others may go out to sites that are not ours.
    _add(server, RESOLVE_LIBRARY, resolve, count, open_world=False)
    _add(server, GET_LIBRARY_DOCS, index, count, open_world=True)
    _add(server, READ_PAGE, page, count, open_world=True)
    _add(server, SEARCH_DOCS, search, count, open_world=False)

    @server.resource(
        session.URI, name=session.NAME, description=session.DESCRIPTION, mime_type="application/json"
    )
    def session_libraries(context: Context) -> str:
        if not session.has_session(context.version):
            raise ResourceNotFoundError("there are no sessions in this revision, and so no list of one")
        return session.recall(context.store)

    return server


def _add(server: Server, row: ToolRow, work: Work, count: Count | None, *, open_world: bool) -> None:
    async def handle(given: dict[str, Json], context: Context) -> object:
        began = time.perf_counter()
        outcome = "INTERNAL"
        try:
            answer: object = await work(given, context)
            outcome = "ok"
        except ProContextError as error:
            answer, outcome = _refusal(error), error.code
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
        output_schema=row.output_schema,
        handler=handle,
        validate=False,  # the arguments are checked by the tool, and our own answers are not checked twice
        read_only=True,
        idempotent=True,
        open_world=open_world,
    )


def _refuse_arguments(_: str, invalid: InvalidArguments) -> CallToolResult:
    return _refusal(failure("INVALID_INPUT", "; ".join(map(str, invalid.problems))))


async def _hide_session_where_there_is_none(context: Context, call_next: Next) -> bytes:
    """2026-07-28: the list of the session is not listed."""
    answer = await call_next()
    if context.method != "resources/list" or session.has_session(context.version):
        return answer
    result: dict[str, Any] = msgspec.json.decode(answer)
    result["resources"] = [row for row in result["resources"] if row["uri"] != session.URI]
    return msgspec.json.encode(result)


__all__ = ["envelope", "make_server"]
