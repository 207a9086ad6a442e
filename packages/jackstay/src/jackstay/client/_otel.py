"""OpenTelemetry: one span per request, and trace context propagated to the server in `_meta`. Needs the extra `otel`.

Names follow OpenTelemetry's semantic conventions for MCP. The library is imported when tracing is enabled, never on
import of this module.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import msgspec

from jackstay.client._telemetry import Span, Trace
from jackstay.errors import McpError, UsageError
from jackstay.extras import install_command

# The attribute for the subject of a request, by method. `NAMED` lists the methods whose span name includes the subject;
# a URI is excluded, because span names should have low cardinality.
SUBJECTS = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name", "resources/read": "mcp.resource.uri"}
NAMED = frozenset({"tools/call", "prompts/get"})


class _OpenTelemetrySpan(msgspec.Struct, eq=False):
    """One span, from the submission of a request to its outcome."""

    span: Any
    meta: Mapping[str, str]
    trace: Any

    def end(self, request_id: int, error: BaseException | None) -> None:
        """See `Span`."""
        span = self.span
        if request_id:
            span.set_attribute("jsonrpc.request.id", str(request_id))
        if error is not None:
            kind = error.type if isinstance(error, McpError) else type(error).__name__
            span.set_attribute("error.type", kind)
            if isinstance(error, McpError):
                if error.code is not None:
                    span.set_attribute("rpc.response.status_code", str(error.code))
                if error.may_have_run is not None:
                    span.set_attribute("jackstay.may_have_run", error.may_have_run)
            span.set_status(self.trace.Status(self.trace.StatusCode.ERROR, str(error)))
        span.end()


def opentelemetry(tracer: Any = None) -> Trace:
    """Return a trace for `client.trace_with()`. `tracer` is an OpenTelemetry tracer; default: of the global provider.

    Raises: UsageError if OpenTelemetry is not installed; it names the extra.
    """
    try:
        trace: Any = importlib.import_module("opentelemetry.trace")
        propagate: Any = importlib.import_module("opentelemetry.propagate")
    except ImportError as missing:
        message = f"OpenTelemetry is not installed; install the extra: {install_command('otel')}"
        raise UsageError(message, path="otel") from missing
    active_tracer = trace.get_tracer("jackstay") if tracer is None else tracer

    def begin(method: str, subject: str) -> Span:
        attributes = {"mcp.method.name": method}
        if subject and method in SUBJECTS:
            attributes[SUBJECTS[method]] = subject
        name = f"{method} {subject}" if subject and method in NAMED else method
        span = active_tracer.start_span(name, kind=trace.SpanKind.CLIENT, attributes=attributes)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=trace.set_span_in_context(span))
        return _OpenTelemetrySpan(span, carrier, trace)

    return begin
