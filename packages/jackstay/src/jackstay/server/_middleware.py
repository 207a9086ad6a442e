"""Ready-made middleware: rate limits, a cache of results, a size limit, timing, logging and retries.

Counters and cached results are in a `MiddlewareStore`: the given one, else that of the server's backend, which all
workers share, else one in memory, which is bounded.
"""

import asyncio
import hashlib
import json
import logging
import math
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

import msgspec

from jackstay.errors import JsonRpcError, McpError, UsageError
from jackstay.protocol.wire import ErrorCode
from jackstay.server._context import Context
from jackstay.server._dispatch import Next
from jackstay.server._entries import check_function
from jackstay.server._failures import RAISED
from jackstay.server._hooks import CallNext, Hooks, ResultOutcome, finalize, read_outcome
from jackstay.server._output import error_result
from jackstay.server._tools import ToolEntry
from jackstay.types import DECODE_ERRORS, CallToolRequestParams, CallToolResult

# The default limits of `MemoryMiddlewareStore`.
MAX_KEYS = 10_000
MAX_BYTES = 64 * 1024 * 1024


class MiddlewareStore(Protocol):
    """Counters and values of middleware, by key. Implement it to share them between processes."""

    async def increment(self, key: str, window: float) -> tuple[int, float]:
        """Count one event. Returns the number in the current window of so many seconds, and the seconds left of it."""

    async def get(self, key: str) -> bytes | None:
        """Return a value, or None if there is none or it has expired."""

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for so many seconds."""


class MemoryMiddlewareStore:
    """Keeps at most `max_keys` counters, and as many values of at most `max_bytes` together. The oldest are dropped."""

    def __init__(
        self, max_keys: int = MAX_KEYS, max_bytes: int = MAX_BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        _check_number("max_keys", max_keys, is_int=True)
        _check_number("max_bytes", max_bytes, is_int=True)
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._clock = clock
        self._counters: OrderedDict[str, tuple[float, int]] = OrderedDict()  # the end of the window, and the number
        self._values: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # the end of its time, and the value
        self._size = 0

    def __repr__(self) -> str:
        return f"<MemoryMiddlewareStore {len(self._counters)} counters, {len(self._values)} values>"

    async def increment(self, key: str, window: float) -> tuple[int, float]:
        """See `MiddlewareStore`."""
        now = self._clock()
        end, number = self._counters.get(key, (0.0, 0))
        if end <= now:
            end, number = now + window, 0
            self._counters.pop(key, None)  # a new window is the newest
        self._counters[key] = end, number + 1
        if len(self._counters) > self._max_keys:
            self._counters.popitem(last=False)
        return number + 1, end - now

    async def get(self, key: str) -> bytes | None:
        """See `MiddlewareStore`."""
        end, value = self._values.get(key, (0.0, b""))
        if end > self._clock():
            return value
        self._discard(key)
        return None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """See `MiddlewareStore`. A value that exceeds `max_bytes` alone is not stored."""
        self._discard(key)
        if len(value) > self._max_bytes:
            return
        self._values[key] = self._clock() + ttl, value
        self._size += len(value)
        while self._size > self._max_bytes or len(self._values) > self._max_keys:
            self._discard(next(iter(self._values)))

    def _discard(self, key: str) -> None:
        _, value = self._values.pop(key, (0.0, b""))
        self._size -= len(value)


class _Stored(Hooks):
    """Middleware with a store."""

    def __init__(self, store: MiddlewareStore | None) -> None:
        self._store = store
        self._memory = MemoryMiddlewareStore()

    def _store_of(self, ctx: Context) -> MiddlewareStore:
        backend = ctx._dispatch.server._backend
        return self._store or (self._memory if backend is None else backend.limits)


class RateLimit(_Stored):
    """Allow `limit` requests in `per` seconds: for each principal, tool or address, or by a function of the context.

    Callers without authentication are counted by address. `by="tool"` counts tool calls only. A function returns the
    key to count by, or an empty string to allow the request. A rejected tool call is a result with `isError`; other
    requests get a JSON-RPC error (-32000). Over stdio, all requests have the same caller.
    """

    def __init__(
        self,
        limit: int,
        per: float = 60.0,
        *,
        by: Literal["principal", "tool", "address"] | Callable[[Context], str] = "principal",
        store: MiddlewareStore | None = None,
    ) -> None:
        _check_number("limit", limit, is_int=True)
        _check_number("per", per)
        if not callable(by) and by not in _KEYS:
            raise UsageError(f"by must be 'principal', 'tool', 'address' or a function, not {by!r}", path="by")
        super().__init__(store)
        self._limit = limit
        self._per = per
        self._key = by if callable(by) else _KEYS[by]
        self._name = getattr(by, "__qualname__", by)

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Count the request."""
        key = self._key(ctx)
        if key:
            name = f"rate:{ctx._dispatch.server.name}:{self._name}:{self._limit}:{self._per:g}:{key}"
            number, left = await self._store_of(ctx).increment(name, self._per)
            if number > self._limit:
                wait = math.ceil(left)
                message = f"rate limit of {self._limit} requests in {self._per:g} s exceeded; retry in {wait} s"
                return _refuse(ctx, JsonRpcError(-32000, message, {"retryAfter": wait}))
        return await call_next()


class ResponseCache(_Stored):
    """Return the result of an equal tool call of the last `ttl` seconds again.

    Applies to tools with `read_only=True`, or to `tools`. Each caller has its own results, unless `shared`: callers
    differ by principal, scopes and claims, without a principal by the headers of the request, such as the session.
    A tool that the caller does not see or may not call is not served from the cache. Results with `isError`, and those
    that require input, are not stored.
    """

    def __init__(
        self,
        ttl: float = 60.0,
        *,
        tools: Iterable[str] | None = None,
        shared: bool = False,
        store: MiddlewareStore | None = None,
    ) -> None:
        _check_number("ttl", ttl)
        if isinstance(tools, str):
            raise UsageError(f"tools must be a collection of names, not {tools!r}", path="tools")
        super().__init__(store)
        self._ttl = ttl
        self._tools = None if tools is None else frozenset(tools)
        self._is_shared = shared

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Look up the result, or store it."""
        key = self._key(ctx) if ctx.method == "tools/call" else ""
        if not key:
            return await call_next()
        store = self._store_of(ctx)
        found = await store.get(key)
        if found is not None:
            return found
        encoded = await call_next()
        if read_outcome(encoded) == ResultOutcome():
            await store.set(key, encoded, self._ttl)
        return encoded

    def _key(self, ctx: Context) -> str:
        params = ctx.params
        tool = _called_tool(ctx)
        if tool is None or "requestState" in params or "inputResponses" in params:
            return ""
        hints = tool.body.annotations
        if not (tool.key in self._tools if self._tools is not None else hints and hints.read_only_hint):
            return ""
        if ctx._caller.scopes is not None and not tool.scopes <= ctx._caller.scopes:
            return ""  # the call is refused
        caller = None if self._is_shared else _identify(ctx)
        parts = [ctx._dispatch.server.name, ctx.version, tool.key, params.get("arguments") or {}, caller]
        text = json.dumps(parts, sort_keys=True, default=str)
        return f"result:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


class ResponseSizeLimit(Hooks):
    """Replace a result of more than `max_bytes` by an error: with `isError` for a tool, else a JSON-RPC error."""

    def __init__(self, max_bytes: int) -> None:
        _check_number("max_bytes", max_bytes, is_int=True)
        self._max_bytes = max_bytes

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Check the size of the encoded result."""
        encoded = await call_next()
        if len(encoded) <= self._max_bytes:
            return encoded
        message = f"the result has {len(encoded)} bytes, more than the limit of {self._max_bytes}; request less"
        return _refuse(ctx, JsonRpcError(ErrorCode.INTERNAL_ERROR, message))


class Timing(Hooks):
    """Log how long each request took, or call `report(request, seconds)`. Only those of at least `slow` seconds."""

    def __init__(self, *, slow: float = 0.0, report: Callable[[str, float], object] | None = None) -> None:
        _check_number("slow", slow, least=0.0)
        if report is not None:
            check_function(report, "report")
        self._slow = slow
        self._report = report or _log_timing

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Measure the request."""
        started = time.perf_counter()
        try:
            return await call_next()
        finally:
            seconds = time.perf_counter() - started
            if seconds >= self._slow:
                self._report(f"{ctx.method} {target_of(ctx)}".rstrip(), seconds)


class StructuredLogging(Hooks):
    """Log one JSON object for each request: method, target, id, principal, outcome, duration and size.

    Arguments and results are not logged. The logger is `jackstay.server.requests`, at the level INFO.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("jackstay.server.requests")

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Log the request."""
        started = time.perf_counter()
        row: dict[str, object] = {
            "method": ctx.method,
            "target": target_of(ctx),
            "id": ctx.request_id,
            "principal": ctx.principal,
            "version": ctx.version,
        }
        try:
            encoded = await call_next()
            row |= {"outcome": outcome_of(encoded), "bytes": len(encoded)}
            return encoded
        except BaseException as error:
            row["outcome"] = error.type if isinstance(error, McpError) else type(error).__name__
            row["code"] = error.code if isinstance(error, McpError) else None
            raise
        finally:
            row["ms"] = round((time.perf_counter() - started) * 1000, 3)
            self._logger.info("%s", json.dumps(row))


class Retry(Hooks):
    """Call a tool again, up to `attempts` times in all, if its function raised an exception of the classes `on`.

    Only tools with `idempotent=True` or `read_only=True`. The delay doubles from `delay` seconds up to `max_delay`,
    with jitter. A `ToolError` is never retried.
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        delay: float = 0.1,
        max_delay: float = 5.0,
        on: type[Exception] | tuple[type[Exception], ...] = OSError,
    ) -> None:
        _check_number("attempts", attempts, is_int=True)
        _check_number("delay", delay, least=0.0)
        _check_number("max_delay", max_delay, least=0.0)
        kinds: tuple[Any, ...] = on if isinstance(on, tuple) else (on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise UsageError(f"on must be exception classes such as (OSError,), not {on!r}", path="on")
        self._attempts = attempts
        self._delay = delay
        self._max_delay = max_delay
        self._on = kinds

    async def on_call_tool(
        self,
        ctx: Context,
        params: CallToolRequestParams,
        call_next: CallNext[CallToolRequestParams, CallToolResult],
    ) -> CallToolResult:
        """Call the tool until it returns."""
        tool = _called_tool(ctx)
        if tool is None or not tool.is_repeatable:
            return await call_next(params)
        raised: list[BaseException] = []
        token = RAISED.set(raised)
        try:
            for attempt in range(1, self._attempts):
                raised.clear()
                result = await call_next(params)
                if not (raised and isinstance(raised[-1], self._on)):
                    return result
                jitter = random.uniform(0.5, 1.0)  # noqa: S311  # not a secret
                await asyncio.sleep(min(self._max_delay, self._delay * 2 ** (attempt - 1)) * jitter)
            return await call_next(params)
        finally:
            RAISED.reset(token)


# --- shared -----------------------------------------------------------------------------------------------------------


class _Target(msgspec.Struct):
    name: str = ""
    uri: str = ""


_read_target = msgspec.json.Decoder(_Target).decode

_timing_logger = logging.getLogger("jackstay.server.timing")


def target_of(ctx: Context) -> str:
    """Return the tool, the prompt or the URI of a request; empty if it has none."""
    try:
        target = _read_target(ctx._params)
    except DECODE_ERRORS:
        return ""
    return target.name or target.uri


def outcome_of(encoded: bytes) -> str:
    """Return "ok", "tool_error" for a result with `isError`, or "input_required"."""
    if not encoded:
        return "ok"  # a subscription that stays open
    found = read_outcome(encoded)
    if found.is_error:
        return "tool_error"
    return "ok" if found.result_type == "complete" else found.result_type


def _log_timing(request: str, seconds: float) -> None:
    _timing_logger.info("%s: %.3f ms", request, seconds * 1000)


def _refuse(ctx: Context, error: JsonRpcError) -> bytes:
    """Return the error as a result for the model, if this is a tool call. Raises: the error, if not."""
    if ctx.method != "tools/call":
        raise error
    return finalize(ctx, error_result(error.message))


def _called_tool(ctx: Context) -> ToolEntry | None:
    """Return the tool that is called; None for another request, and for a tool that this caller does not see."""
    if ctx.method != "tools/call":
        return None
    return ctx._dispatch.find_tool(target_of(ctx), ctx._caller)


def _identify(ctx: Context) -> list[object]:
    """Return what distinguishes a caller. Without a principal, these are the headers that a tool may read."""
    known: list[object] = [ctx.principal, sorted(ctx.scopes), dict(ctx.claims)]
    if not ctx.principal:
        known += sorted(row for row in ctx.headers.items() if row[0] not in _ANONYMOUS_HEADERS)
    return known


# Headers that do not identify a user: those of HTTP, of MCP and of tracing that clients and load balancers add.
_ANONYMOUS_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "connection", "content-length", "content-type", "host"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "traceparent", "tracestate", "user-agent", "x-request-id"),
    }
)


def _by_principal(ctx: Context) -> str:
    caller = ctx._caller
    return f"principal {caller.principal}" if caller.principal else _by_address(ctx)


def _by_tool(ctx: Context) -> str:
    if ctx.method != "tools/call":
        return ""
    tool = _called_tool(ctx)
    # Unknown names are counted together: each as a key of its own would displace the counters of tools.
    return "unknown tool" if tool is None else tool.key


def _by_address(ctx: Context) -> str:
    return f"address {ctx._caller.address}"


_KEYS: dict[str, Callable[[Context], str]] = {"principal": _by_principal, "tool": _by_tool, "address": _by_address}


def _check_number(name: str, value: float, *, is_int: bool = False, least: float | None = None) -> None:
    kinds = (int,) if is_int else (int, float)
    is_number = type(value) in kinds and math.isfinite(value)
    if not is_number or (value <= 0 if least is None else value < least):
        bound = "from 1" if is_int else ("greater than 0" if least is None else f"of at least {least:g}")
        raise UsageError(f"{name} must be {'an int' if is_int else 'a number'} {bound}, not {value!r}", path=name)
