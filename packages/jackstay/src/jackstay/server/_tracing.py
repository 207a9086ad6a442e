"""OpenTelemetry as middleware: a span and a duration for every request, by the semantic conventions for MCP.

The span continues the trace of the client, which sends `traceparent`, `tracestate` and `baggage` in `_meta` (2026-07-28
basic/index). The library is optional and imported when the middleware is created.
"""

import importlib
import time
from typing import Any

from jackstay.errors import McpError, UsageError
from jackstay.extras import install_command
from jackstay.server._context import Context
from jackstay.server._dispatch import Middleware, Next
from jackstay.server._middleware import outcome_of, target_of

# The members of `_meta` with the trace context.
CARRIED = ("traceparent", "tracestate", "baggage")

# The attribute for the target of a request. A URI is neither part of the name of a span nor an attribute of a
# metric, because there may be many.
TARGETS = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name", "resources/read": "mcp.resource.uri"}
_URI = "mcp.resource.uri"

# The metric, and its buckets in seconds, by the conventions.
DURATION = "mcp.server.operation.duration"
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


def trace_requests(tracer: Any = None, meter: Any = None) -> Middleware:
    """Create middleware that records a span and a duration for every request: `add_middleware(trace_requests())`.

    `tracer` and `meter` are those of OpenTelemetry; the defaults are named `jackstay.server`. A result with `isError`
    is an error with the type `tool_error`.

    Raises: UsageError, if the extra `otel` is not installed.
    """
    try:
        # By name, so that type checkers do not need the optional package.
        trace = importlib.import_module("opentelemetry.trace")
        metrics = importlib.import_module("opentelemetry.metrics")
        propagate = importlib.import_module("opentelemetry.propagate")
    except ImportError as missing:
        raise UsageError(f"tracing needs the extra 'otel': {install_command('otel')}") from missing
    spans = tracer or trace.get_tracer("jackstay.server")
    histogram = _make_histogram(meter or metrics.get_meter("jackstay.server"))

    async def traced(ctx: Context, call_next: Next) -> bytes:
        meta = ctx.meta
        carrier = {name: meta[name] for name in CARRIED if isinstance(meta.get(name), str)}
        target = target_of(ctx) if ctx.method in TARGETS else ""
        attributes = {"mcp.method.name": ctx.method, "mcp.protocol.version": ctx.version}
        if target:
            attributes[TARGETS[ctx.method]] = target
        if ctx.method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
        is_named = target and TARGETS[ctx.method] != _URI
        started = time.perf_counter()
        failure: dict[str, str] = {}
        with spans.start_as_current_span(
            f"{ctx.method} {target}" if is_named else ctx.method,
            context=propagate.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={**attributes, "jsonrpc.request.id": str(ctx.request_id)},
        ) as span:
            try:
                encoded = await call_next()
                if outcome_of(encoded) == "tool_error":
                    failure = {"error.type": "tool_error"}
                    span.set_status(trace.StatusCode.ERROR)
                return encoded
            except BaseException as error:
                failure = {"error.type": error.type if isinstance(error, McpError) else type(error).__name__}
                if isinstance(error, McpError) and error.code is not None:
                    failure["rpc.response.status_code"] = str(error.code)
                raise
            finally:
                span.set_attributes(failure)
                row = {**attributes, **failure}
                if not is_named or not _is_registered(ctx, target):
                    row.pop(TARGETS.get(ctx.method, ""), None)
                histogram.record(time.perf_counter() - started, row)

    return traced


def _make_histogram(meter: Any) -> Any:
    described = {"unit": "s", "description": "Duration of requests."}
    try:
        return meter.create_histogram(DURATION, **described, explicit_bucket_boundaries_advisory=BUCKETS)
    except TypeError:  # OpenTelemetry before 1.30
        return meter.create_histogram(DURATION, **described)


def _is_registered(ctx: Context, target: str) -> bool:
    """Return whether a tool or a prompt exists: callers must not create new time series."""
    catalogue = ctx._dispatch.catalogue
    return target in catalogue.prompts if ctx.method == "prompts/get" else catalogue.find_tool(target) is not None
