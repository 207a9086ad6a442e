"""Servers whose tools and resources are operations of an HTTP API: registration of the endpoints of an `Api`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.openapi import (
    Api,
    ApiSettings,
    AsgiSender,
    CallFailedError,
    HttpSender,
    load_document,
    max_match_length,
    resource_contents,
)
from jackstay.protocol import refuse_unknown
from jackstay.server._context import Context
from jackstay.server._failures import ResourceNotFoundError, ToolError
from jackstay.server._json_schema import compile_validator
from jackstay.server._problems import InvalidArguments
from jackstay.server._resources import ResourceOptions, resource_from_function
from jackstay.server._tools import ToolEntry, ToolOptions, tool_from_schema
from jackstay.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from jackstay.openapi import ApiKeywords, Application, Endpoint, Source
    from jackstay.server._functions import Bind, Call, RawArguments
    from jackstay.server._json_schema import Validate
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._schema import Schema
    from jackstay.server._server import Server

MAX_INSTRUCTIONS = 4096


def api_of_document(document: Source, client: Any, options: ApiKeywords) -> Api:
    """Return the API of a document. Raises: OpenApiError; UsageError."""
    sender = HttpSender(client)
    settings = _settings("Server.from_openapi()", options)
    if settings.base_url is None and sender.base_url is not None:
        settings = msgspec.structs.replace(settings, base_url=sender.base_url)
    return Api(load_document(document), sender, settings)


def api_of_application(app: Any, options: ApiKeywords) -> Api:
    """Return the API of a FastAPI application, or of another one with a method `openapi()`.

    Raises: OpenApiError; UsageError.
    """
    describe: Callable[[], Mapping[str, Any]] | None = getattr(app, "openapi", None)
    if not callable(describe) or not callable(app):
        raise UsageError(f"from_fastapi() expected a FastAPI application, got {type(app).__name__}", path="app")
    settings = _settings("Server.from_fastapi()", options)
    if settings.base_url is None:
        settings = msgspec.structs.replace(settings, base_url="http://localhost")
    application: Application = app
    return Api(load_document(describe()), AsgiSender(application), settings, _path_parameters(app))


def _path_parameters(app: Any) -> frozenset[tuple[str, str]]:
    """Return the path parameters of an application that may contain slashes: `{name:path}`, as (path, name)."""
    return frozenset(
        (getattr(route, "path_format", ""), name)
        for route in getattr(app, "routes", ())
        for name, convertor in getattr(route, "param_convertors", {}).items()
        if getattr(convertor, "regex", "") == ".*"
    )


def _settings(where: str, options: ApiKeywords) -> ApiSettings:
    refuse_unknown(options, [field.name for field in msgspec.structs.fields(ApiSettings)], where)
    return ApiSettings(**options)


S = TypeVar("S", bound="Server")


def make_server(
    cls: type[S],
    api: Api,
    name: str | None,
    options: Mapping[str, Any] | None,
    *,
    runs_lifespan: bool = False,
) -> S:
    """Create a server with a tool or a resource for every endpoint of an API.

    `runs_lifespan`: the startup of the application runs when the server starts. Its shutdown runs with the end of the
    sender.
    """
    described = {"version": api.version or "0", "instructions": api.description[:MAX_INSTRUCTIONS]}
    server = cls(name or api.title or "api", **{**described, **(options or {})})
    tools: list[ToolEntry] = []
    resources: list[ResourceEntry] = []
    for endpoint in api.endpoints:
        if endpoint.route.serve == "resource":
            resources.append(_resource(api, endpoint, server.name))
        else:
            tools.append(_tool(api, endpoint))
    if tools:
        server.catalogue.add_tools(*tools)
    if resources:
        server.catalogue.add_resources(*resources)
    if runs_lifespan and isinstance(api.sender, AsgiSender):
        server.on_startup(api.sender.start)
    server.on_shutdown(api.sender.close)
    return server


# --- tools ------------------------------------------------------------------------------------------------------------


def _tool(api: Api, endpoint: Endpoint) -> ToolEntry:
    operation, route = endpoint.operation, endpoint.route
    output = operation.output if route.output_schema else None
    check_output = None if output is None else _lazy_validator(output.schema, f"{endpoint.name}(output_schema)")

    async def call(arguments: dict[str, Json], context: Context) -> CallToolResult:
        result = await api.call_tool(endpoint, arguments, context.headers)
        if check_output is None or result.is_error:
            return result
        invalid = check_output(result.structured_content)
        if invalid is None:
            return result
        flaws = "; ".join(map(str, invalid.problems))[:1000]
        return CallToolResult(
            content=[TextContent(text=f"the response violates the output schema: {flaws}"), *result.content],
            is_error=True,
        )

    is_safe = operation.method in ("GET", "HEAD", "OPTIONS", "TRACE")
    is_read_only = is_safe if route.read_only is None else route.read_only
    is_repeatable = operation.method in ("PUT", "DELETE") or None
    replaces = operation.method in ("PUT", "DELETE", "PATCH") or None
    options = ToolOptions(
        name=endpoint.name,
        title=route.title or operation.title or None,
        description=route.description or operation.description or str(operation),
        read_only=is_read_only,
        destructive=route.destructive if is_read_only or route.destructive is not None else replaces,
        idempotent=route.idempotent if is_read_only or route.idempotent is not None else is_repeatable,
        open_world=True,
        output_schema=None if output is None else output.schema,
    )
    entry = tool_from_schema(call, options, operation.input_schema, validate=False)
    bind = _validating(entry.bind, _lazy_validator(operation.input_schema, f"{endpoint.name}(input_schema)"))
    return msgspec.structs.replace(entry, bind=bind)


def _validating(bind: Bind, validate: Validate) -> Bind:
    def validating(arguments: RawArguments, context: object) -> Call | InvalidArguments:
        call = bind(arguments, context)
        if isinstance(call, InvalidArguments):
            return call
        given: Any = call[0][0]
        return validate(given) or call

    return validating


def _lazy_validator(schema: Schema, where: str) -> Validate:
    """Return a validator that is compiled on first use: a document may have thousands of schemas.

    A match that could take too long is left to the API: callers choose the strings, and others the patterns.
    """
    compiled: list[Validate] = []

    def validate(value: Json) -> InvalidArguments | None:
        if not compiled:
            compiled.append(compile_validator(schema, where, max_match_length))
        return compiled[0](value)

    return validate


# --- resources --------------------------------------------------------------------------------------------------------


def _resource(api: Api, endpoint: Endpoint, server_name: str) -> ResourceEntry:
    operation, route = endpoint.operation, endpoint.route
    parameters = [row for row in operation.parameters if row.location == "path"]
    arguments = {re.sub(r"\W", "_", row.name): row.argument for row in parameters}
    uri = route.uri or _uri(server_name, operation.path)

    async def read(context: Context, **variables: str) -> Any:
        given: dict[str, Json] = {arguments[name]: value for name, value in variables.items()}
        try:
            response = await api.call(endpoint, given, context.headers)
        except CallFailedError as error:
            raise ToolError(str(error)) from error
        if response.status in (404, 410):
            raise ResourceNotFoundError
        if response.status >= 300:
            raise ToolError(f"HTTP {response.status}")
        requested = context.params.get("uri")
        return resource_contents(response, requested if isinstance(requested, str) else uri)

    options = ResourceOptions(
        name=endpoint.name,
        title=route.title or operation.title or None,
        description=route.description or operation.description or str(operation),
        allow_traversal=route.allow_slashes,
    )
    return resource_from_function(uri, _with_signature(read, arguments), options)


def _with_signature(read: Callable[..., Awaitable[Any]], names: Mapping[str, str]) -> Callable[..., Awaitable[Any]]:
    """Give a function the parameters of a URI template, which registration reads from its signature."""
    kinds = inspect.Parameter
    rows = [kinds("context", kinds.POSITIONAL_ONLY, annotation=Context)]
    rows += [kinds(name, kinds.KEYWORD_ONLY, annotation=str) for name in names]
    read.__signature__ = inspect.Signature(rows)  # type: ignore[attr-defined]  # PEP 362
    read.__annotations__ = {"context": Context, **dict.fromkeys(names, str)}
    return read


def _uri(server_name: str, path: str) -> str:
    host = re.sub(r"[^a-z0-9]+", "-", server_name.lower()).strip("-") or "api"
    variables = re.sub(r"\{([^{}]*)\}", lambda found: "{" + re.sub(r"\W", "_", found[1]) + "}", path)
    return f"api://{host}{variables}"
