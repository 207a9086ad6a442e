"""`Hooks`: middleware with typed hooks, which receive decoded params and results.

Only requests whose hook is overridden are decoded. A result that a hook returns unchanged is not encoded again.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from jackstay.errors import UsageError, did_you_mean
from jackstay.server._context import Context
from jackstay.server._dispatch import Middleware, Next, read_params
from jackstay.server._failures import ToolError
from jackstay.server._output import encode_content_result, error_result
from jackstay.types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Result,
    decode,
    encode_json,
)

P_contra = TypeVar("P_contra", bound=RequestParams, contravariant=True)
R_co = TypeVar("R_co", bound=Result, covariant=True)


class CallNext(Protocol[P_contra, R_co]):
    """Calls the next middleware or the handler with these params, or with those of the request; returns its result."""

    def __call__(self, params: P_contra | None = None, /) -> Awaitable[R_co]:
        """Run the rest."""
        ...


class Hooks:
    """Middleware with typed hooks: override the ones you need, then `server.add_middleware(MyHooks())`.

    `call_next(params)` runs the rest with these params, `call_next()` with those of the request, and may be called
    several times. Return its result or another one. A `ToolError` that `on_call_tool` raises becomes a result with
    `isError`. If a handler requests input in the stateless era, `call_next()` does not return and the hook ends there;
    it runs again with the response.
    """

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:  # noqa: ARG002  # for overriding
        """Run around every request, before the other hooks. The result is encoded, as in a middleware function."""
        return await call_next()

    async def on_call_tool(
        self,
        ctx: Context,  # noqa: ARG002  # for overriding
        params: CallToolRequestParams,
        call_next: CallNext[CallToolRequestParams, CallToolResult],
    ) -> CallToolResult:
        """Run around `tools/call`."""
        return await call_next(params)

    async def on_list_tools(
        self,
        ctx: Context,  # noqa: ARG002
        params: PaginatedRequestParams,
        call_next: CallNext[PaginatedRequestParams, ListToolsResult],
    ) -> ListToolsResult:
        """Run around `tools/list`, for each page."""
        return await call_next(params)

    async def on_read_resource(
        self,
        ctx: Context,  # noqa: ARG002
        params: ReadResourceRequestParams,
        call_next: CallNext[ReadResourceRequestParams, ReadResourceResult],
    ) -> ReadResourceResult:
        """Run around `resources/read`."""
        return await call_next(params)

    async def on_list_resources(
        self,
        ctx: Context,  # noqa: ARG002
        params: PaginatedRequestParams,
        call_next: CallNext[PaginatedRequestParams, ListResourcesResult],
    ) -> ListResourcesResult:
        """Run around `resources/list`, for each page."""
        return await call_next(params)

    async def on_list_resource_templates(
        self,
        ctx: Context,  # noqa: ARG002
        params: PaginatedRequestParams,
        call_next: CallNext[PaginatedRequestParams, ListResourceTemplatesResult],
    ) -> ListResourceTemplatesResult:
        """Run around `resources/templates/list`, for each page."""
        return await call_next(params)

    async def on_get_prompt(
        self,
        ctx: Context,  # noqa: ARG002
        params: GetPromptRequestParams,
        call_next: CallNext[GetPromptRequestParams, GetPromptResult],
    ) -> GetPromptResult:
        """Run around `prompts/get`."""
        return await call_next(params)

    async def on_list_prompts(
        self,
        ctx: Context,  # noqa: ARG002
        params: PaginatedRequestParams,
        call_next: CallNext[PaginatedRequestParams, ListPromptsResult],
    ) -> ListPromptsResult:
        """Run around `prompts/list`, for each page."""
        return await call_next(params)

    async def on_complete(
        self,
        ctx: Context,  # noqa: ARG002
        params: CompleteRequestParams,
        call_next: CallNext[CompleteRequestParams, CompleteResult],
    ) -> CompleteResult:
        """Run around `completion/complete`."""
        return await call_next(params)


class _Row(NamedTuple):
    hook: Callable[..., Awaitable[Result]]
    params: type[RequestParams]
    result: type[Result]

    @property
    def name(self) -> str:
        return self.hook.__name__


# The hook of each method, and the types of its params and its result.
HOOKS: dict[str, _Row] = {
    "tools/call": _Row(Hooks.on_call_tool, CallToolRequestParams, CallToolResult),
    "tools/list": _Row(Hooks.on_list_tools, PaginatedRequestParams, ListToolsResult),
    "resources/read": _Row(Hooks.on_read_resource, ReadResourceRequestParams, ReadResourceResult),
    "resources/list": _Row(Hooks.on_list_resources, PaginatedRequestParams, ListResourcesResult),
    "resources/templates/list": _Row(
        Hooks.on_list_resource_templates, PaginatedRequestParams, ListResourceTemplatesResult
    ),
    "prompts/get": _Row(Hooks.on_get_prompt, GetPromptRequestParams, GetPromptResult),
    "prompts/list": _Row(Hooks.on_list_prompts, PaginatedRequestParams, ListPromptsResult),
    "completion/complete": _Row(Hooks.on_complete, CompleteRequestParams, CompleteResult),
}
_NAMES = ("on_request", *(row.name for row in HOOKS.values()))


class _Incomplete(BaseException):  # not an Exception: a hook that catches those must not see it
    """Ends a hook whose handler requested input: there is no result yet."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


class ResultOutcome(msgspec.Struct, rename="camel"):
    """What an encoded result has about its outcome."""

    is_error: bool = False
    result_type: str = "complete"


read_outcome = msgspec.json.Decoder(ResultOutcome).decode


def make_middleware(hooks: Hooks) -> Middleware:
    """Return a middleware function that calls the overridden hooks. Raises: UsageError for none, and for a bad one."""
    if isinstance(hooks, type):
        raise UsageError(f"middleware must be an instance of {hooks.__name__}, not the class", path="middleware")
    found = _overridden(hooks)
    rows = {method: (row, found[row.name]) for method, row in HOOKS.items() if row.name in found}
    on_request = found.get("on_request")

    async def middleware(ctx: Context, call_next: Next) -> bytes:
        row = rows.get(ctx.method)
        if row is None:
            return await (call_next() if on_request is None else on_request(ctx, call_next))
        if on_request is None:
            return await _run(*row, ctx, call_next)
        encoded: bytes = await on_request(ctx, lambda: _run(*row, ctx, call_next))
        return encoded

    return middleware


def _overridden(hooks: Hooks) -> dict[str, Callable[..., Awaitable[Any]]]:
    kind = type(hooks)
    found = {}
    for name in dir(kind):
        if not name.startswith("on_") or getattr(kind, name) is getattr(Hooks, name, None):
            continue
        if name not in _NAMES:
            message = f"{kind.__name__}.{name} is not a hook{did_you_mean(name, _NAMES)}"
            raise UsageError(f"{message}; rename it if it is a method of your own", path=name)
        hook = getattr(hooks, name)
        if not inspect.iscoroutinefunction(hook):
            raise UsageError(f"{kind.__name__}.{name} must be async", path=name)
        found[name] = hook
    if not found:
        raise UsageError(f"{kind.__name__} overrides no hook: use one of {', '.join(_NAMES)}", path="middleware")
    return found


async def _run(row: _Row, hook: Callable[..., Awaitable[Any]], ctx: Context, call_next: Next) -> bytes:
    """Run a hook around a request."""
    params = read_params(row.params, ctx.method, ctx._params)
    encoded, decoded = b"", None

    async def proceed(given: RequestParams | None = None, /) -> Result:
        nonlocal encoded, decoded
        if given is None:
            given = params
        if not isinstance(given, row.params):
            raise TypeError(f"call_next() expected {row.params.__name__}, got {type(given).__name__}")
        if given is not params:
            ctx._params = encode_json(given)
        encoded = await call_next()
        if ctx._is_stateless and read_outcome(encoded).result_type != "complete":
            raise _Incomplete(encoded)
        decoded = decode(row.result, encoded)
        return decoded

    try:
        result = await hook(ctx, params, proceed)
    except _Incomplete as incomplete:
        return incomplete.encoded
    except ToolError as error:
        if row.result is not CallToolResult:
            raise
        return finalize(ctx, error_result(error.message))
    if result is decoded and decoded is not None:
        return encoded
    if not isinstance(result, row.result):
        raise TypeError(f"{row.name} must return {row.result.__name__}, not {type(result).__name__}")
    return finalize(ctx, encode_content_result(result, ctx.version))


def finalize(ctx: Context, encoded: bytes) -> bytes:
    """Add the members that the era of the request requires to an encoded result."""
    return ctx._connection.server_config.finalize(encoded) if ctx._is_stateless else encoded
