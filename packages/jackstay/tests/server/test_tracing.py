"""Tracing with the OpenTelemetry SDK: spans continue the trace of the client."""

import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from chaos.servers_own.conversation import connected
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Server, ToolError, trace_requests
from jackstay.server._tracing import _make_histogram

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Traced:
    """A tracer with its own provider, instead of the global one."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    def spans(self) -> tuple[ReadableSpan, ...]:
        """The finished spans in order."""
        return self._exporter.get_finished_spans()


async def test_the_span_of_a_request_continues_the_trace_of_the_client() -> None:
    """2026-07-28 basic/index: `traceparent` in `_meta`."""
    traced, inside = Traced(), []
    server = Server("traced")

    @server.tool(blocking=False)
    def echo() -> str:
        inside.append(get_current_span().get_span_context().span_id)
        return "x"

    server.add_middleware(trace_requests(traced.tracer))

    async with connected(server) as peer:
        trace = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b", "other": 1, "baggage": 7}
        await peer.result("tools/call", {"name": "echo", "_meta": trace})
        await peer.result("tools/list")
    call, listing = traced.spans()
    assert (call.name, listing.name) == ("tools/call echo", "tools/list")
    context = call.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == TRACE
    assert call.parent is not None
    assert f"{call.parent.span_id:016x}" == PARENT
    assert call.parent.trace_state.to_header() == "a=b"
    assert inside == [context.span_id], "it is the current span in the handler"
    assert call.kind is SpanKind.SERVER
    assert (call.attributes or {})["mcp.method.name"] == "tools/call"
    assert listing.parent is None, "the request had no trace context"


async def test_a_request_that_fails_ends_its_span_as_an_error() -> None:
    traced = Traced()
    server = Server("traced")

    @server.tool(blocking=False)
    def broken() -> str:
        raise JsonRpcError(-32000, "not available")

    server.add_middleware(trace_requests(traced.tracer))

    async with connected(server) as peer:
        await peer.error("tools/call", {"name": "broken"})
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "not available" in (span.status.description or "")


async def test_requests_are_served_without_a_provider() -> None:
    """OpenTelemetry's default tracers record nothing."""
    server = Server("traced")
    server.tool(name="echo", blocking=False)(lambda: "x")
    server.add_middleware(trace_requests())

    async with connected(server) as peer:
        assert (await peer.result("tools/call", {"name": "echo"}))["content"][0]["text"] == "x"


def test_the_error_for_a_missing_library_has_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opentelemetry", "opentelemetry.trace"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'jackstay\[otel\]'"):
        trace_requests()


async def test_spans_and_durations_follow_the_conventions_for_mcp() -> None:
    """OpenTelemetry semantic conventions for MCP: names, attributes, and `tool_error` for a result with `isError`."""
    traced, reader = Traced(), InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("tests")
    server = Server("traced", middleware=trace_requests(traced.tracer, meter))

    @server.tool(blocking=False)
    def pay(amount: int) -> str:
        if amount < 0:
            raise ToolError("too little")
        return "paid"

    server.resource("test://note")(lambda: "note")
    server.prompt(name="greet")(lambda: "hello")
    async with connected(server) as peer:
        await peer.call("pay", amount=1)
        await peer.call("pay", amount=-1)
        await peer.error("tools/call", {"name": "invented"})
        await peer.result("resources/read", {"uri": "test://note"})
        await peer.result("prompts/get", {"name": "greet"})
    spans = traced.spans()
    assert [span.name for span in spans] == [
        "tools/call pay", "tools/call pay", "tools/call invented", "resources/read", "prompts/get greet",
    ]  # fmt: skip
    paid, refused, unknown, read, prompt = (dict(span.attributes or {}) for span in spans)
    assert paid["gen_ai.tool.name"] == "pay"
    assert paid["gen_ai.operation.name"] == "execute_tool"
    assert "error.type" not in paid
    assert refused["error.type"] == "tool_error"
    assert spans[1].status.status_code is StatusCode.ERROR
    assert (unknown["error.type"], unknown["rpc.response.status_code"]) == ("jsonrpc", "-32602")
    assert read["mcp.resource.uri"] == "test://note"
    assert prompt["gen_ai.prompt.name"] == "greet"
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("mcp.server.operation.duration", "s")
    points = {
        (str(row["mcp.method.name"]), str(row.get("gen_ai.tool.name")), str(row.get("error.type")))
        for row in (dict(point.attributes or {}) for point in metric.data.data_points)
    }
    assert points == {
        ("tools/call", "pay", "None"),
        ("tools/call", "pay", "tool_error"),
        ("tools/call", "None", "jsonrpc"),
        ("resources/read", "None", "None"),
        ("prompts/get", "None", "None"),
    }
    assert not any("mcp.resource.uri" in (point.attributes or {}) for point in metric.data.data_points)


def test_an_older_library_has_no_bucket_advice() -> None:
    class OldMeter:
        def create_histogram(self, name: str, unit: str = "", description: str = "") -> str:
            return name

    assert _make_histogram(OldMeter()) == "mcp.server.operation.duration"
