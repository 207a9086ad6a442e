"""OpenTelemetry for a server, as middleware: the caller's trace goes on here.

A client that traces puts `traceparent` (and `tracestate`, `baggage`) into `_meta`, under those very names (2026-07-28
basic/index). The span of a request is a child of what they say. The library is an extra, and loaded when the middleware is
made: nothing here needs it otherwise.

Must never know a connection. Above: authors, who add it. Below: `opentelemetry-api`.
"""

import importlib
from typing import Any

from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.server._context import Context
from jackstay.server._dispatch import Middleware, Next

# The members of `_meta` that carry a trace.
CARRIED = ("traceparent", "tracestate", "baggage")


def trace_requests(tracer: Any = None) -> Middleware:
    """Middleware that makes a span of every request: `server.add_middleware(trace_requests())`.

    `tracer` is OpenTelemetry's; without one, that of the name `jackstay.server`.

    Raises: UsageError, if the extra `otel` is missing.
    """
    try:
        # By name: the extra is optional, and its types are not there for whoever checks ours without it.
        trace = importlib.import_module("opentelemetry.trace")
        propagate = importlib.import_module("opentelemetry.propagate")
    except ImportError as missing:
        raise UsageError(f"tracing needs the extra `otel`: {install_command('otel')}") from missing
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
