"""Tracing: the caller's trace goes on, with OpenTelemetry's own SDK; and a missing library is named."""

import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from chaos.servers_own.conversation import run, talking
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Server, trace_requests

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Traced:
    """A provider of its own, not the process's."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    def spans(self) -> tuple[ReadableSpan, ...]:
        """Those that have ended, in that order."""
        return self._exporter.get_finished_spans()


def test_a_request_is_a_span_of_the_callers_trace() -> None:
    """2026-07-28 basic/index: `traceparent` in `_meta`."""
    traced, inside = Traced(), []
    server = Server("traced")

    @server.tool(blocking=False)
    def echo() -> str:
        inside.append(get_current_span().get_span_context().span_id)
        return "x"

    server.add_middleware(trace_requests(traced.tracer))

    async def test() -> None:
        async with talking(server) as peer:
            trace = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b", "other": 1, "baggage": 7}
            await peer.result("tools/call", {"name": "echo", "_meta": trace})
            await peer.result("tools/list")

    run(test)
    call, listing = traced.spans()
    assert (call.name, listing.name) == ("tools/call echo", "tools/list")
    context = call.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == TRACE
    assert call.parent is not None
    assert f"{call.parent.span_id:016x}" == PARENT
    assert call.parent.trace_state.to_header() == "a=b"
    assert inside == [context.span_id], "it is the current one in the handler"
    assert call.kind is SpanKind.SERVER
    assert (call.attributes or {})["mcp.method.name"] == "tools/call"
    assert listing.parent is None, "no trace came with it"


def test_a_request_that_fails_ends_its_span_as_an_error() -> None:
    traced = Traced()
    server = Server("traced")

    @server.tool(blocking=False)
    def broken() -> str:
        raise JsonRpcError(-32000, "closed on Sundays")

    server.add_middleware(trace_requests(traced.tracer))

    async def test() -> None:
        async with talking(server) as peer:
            await peer.error("tools/call", {"name": "broken"})

    run(test)
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "closed on Sundays" in (span.status.description or "")


def test_without_a_provider_requests_are_served_as_ever() -> None:
    """The library's own default: tracers that record nothing."""
    server = Server("traced")
    server.tool(name="echo", blocking=False)(lambda: "x")
    server.add_middleware(trace_requests())

    async def test() -> None:
        async with talking(server) as peer:
            assert (await peer.result("tools/call", {"name": "echo"}))["content"][0]["text"] == "x"

    run(test)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opentelemetry", "opentelemetry.trace"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'jackstay\[otel\]'"):
        trace_requests()
