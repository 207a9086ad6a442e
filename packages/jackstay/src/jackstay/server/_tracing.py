"""OpenTelemetry tracing as middleware: the span of a request continues the trace of the client.

Clients send `traceparent`, `tracestate` and `baggage` in `_meta` (2026-07-28 basic/index). The library is optional and
imported when the middleware is created.
"""

import importlib
from typing import Any

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.server._context import Context
from jackstay.server._dispatch import Middleware, Next

# The members of `_meta` with the trace context.
CARRIED = ("traceparent", "tracestate", "baggage")


def trace_requests(tracer: Any = None) -> Middleware:
    """Create middleware that records a span for every request: `server.add_middleware(trace_requests())`.

    `tracer` is an OpenTelemetry tracer; the default is the one named `jackstay.server`.

    Raises: UsageError, if the extra `otel` is not installed.
    """
    try:
        # By name, so that type checkers do not need the optional package.
        trace = importlib.import_module("opentelemetry.trace")
        propagate = importlib.import_module("opentelemetry.propagate")
    except ImportError as missing:
        raise UsageError(f"tracing needs the extra 'otel': {install_command('otel')}") from missing
    traces = tracer or trace.get_tracer("jackstay.server")

    async def traced(ctx: Context, call_next: Next) -> bytes:
        params = ctx.params
        meta = ctx.meta
        carrier = {name: meta[name] for name in CARRIED if isinstance(meta.get(name), str)}
        target = params.get("name") or params.get("uri") or ""
        with traces.start_as_current_span(
            f"{ctx.method} {target}".strip(),
            context=propagate.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={
                "rpc.system": "jsonrpc",
                "mcp.method.name": ctx.method,
                "mcp.protocol.version": ctx.version,
                "jsonrpc.request.id": str(ctx.request_id),
            },
        ):
            return await call_next()

    return traced
