"""OpenTelemetry, the real one: its SDK, with an exporter that keeps spans in memory."""

import asyncio
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jackstay.client import opentelemetry
from jackstay.errors import JsonRpcError, UsageError
from jackstay.testing import ScriptedError, on_fake_clock
from scripted.peer import opened, text_result


class Traced:
    """A tracer provider for one test."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    def spans(self) -> tuple[ReadableSpan, ...]:
        """Return the ended spans in order."""
        return self._exporter.get_finished_spans()


@pytest.fixture
def traced() -> Traced:
    return Traced()


@on_fake_clock
async def test_each_request_is_a_span_and_the_server_gets_its_trace(traced: Traced) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry(traced.tracer))
        peer.on["tools/call"] = text_result("hi")
        peer.on["resources/read"] = {"contents": []}
        peer.on["prompts/get"] = {"messages": []}
        await client.tools.call("greet", meta={"tenant": "a"})
        await client.resources.read("file:///a")
        await client.prompts.get("plan")
        await client.ping()
        names = [span.name for span in traced.spans()]
        assert names == ["tools/call greet", "resources/read", "prompts/get plan", "ping"]
        tool, resource, prompt, _ = traced.spans()
        call = peer.got("tools/call")[0]
        assert dict(tool.attributes or {}) == {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": "greet",
            "jsonrpc.request.id": str(call.id),
        }
        assert (resource.attributes or {})["mcp.resource.uri"] == "file:///a"
        assert (prompt.attributes or {})["gen_ai.prompt.name"] == "plan"
        context = tool.get_span_context()
        assert context is not None
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert call.params["_meta"] == {"traceparent": parent, "tenant": "a"}
        assert (tool.kind, tool.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
        client.trace_with(None)
        await client.ping()
        assert len(traced.spans()) == 4


@on_fake_clock
async def test_a_request_belongs_to_the_span_that_is_current_where_it_is_made(traced: Traced) -> None:
    async with opened() as (client, _):
        client.trace_with(opentelemetry(traced.tracer))
        with traced.tracer.start_as_current_span("checkout"):
            await asyncio.gather(client.ping(), client.ping())
        first, second, checkout = traced.spans()
        context = checkout.get_span_context()
        assert context is not None
        for span in (first, second):
            assert span.parent is not None
            assert span.parent.span_id == context.span_id


@on_fake_clock
async def test_meta_of_the_caller_takes_precedence(traced: Traced) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry(traced.tracer))
        await client.ping(meta={"traceparent": "own"})
        assert peer.got("ping")[0].params["_meta"] == {"traceparent": "own"}
        assert peer.frames[-1].count(b"traceparent") == 1


@on_fake_clock
async def test_a_span_records_the_error_of_its_request(traced: Traced) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry(traced.tracer))

        def refuse(params: Any) -> None:
            raise ScriptedError(-32602, "no such tool")

        peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError):
            await client.tools.call("greet")
        peer.on["tools/call"] = None
        call = client.submit("tools/call", {"name": "greet"})
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
    refused, cancelled = traced.spans()
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "jsonrpc"
    assert refused.attributes["rpc.response.status_code"] == "-32602"
    assert refused.status.status_code is StatusCode.ERROR
    assert "no such tool" in (refused.status.description or "")
    assert (cancelled.attributes or {})["error.type"] == "CancelledError"


@on_fake_clock
async def test_the_span_of_a_refused_call_has_no_id_and_may_have_run_is_false(traced: Traced) -> None:
    async with opened() as (client, _):
        client.trace_with(opentelemetry(traced.tracer))
        await client.stop()
        with pytest.raises(Exception, match="closed"):
            await client.submit("ping")
    await asyncio.sleep(0)
    (span,) = traced.spans()
    assert span.attributes is not None
    assert "jsonrpc.request.id" not in span.attributes
    assert span.attributes["jackstay.may_have_run"] is False


@on_fake_clock
async def test_without_a_provider_nothing_is_traced_and_nothing_is_sent() -> None:
    """By default the library uses tracers that record nothing."""
    async with opened() as (client, peer):
        client.trace_with(opentelemetry())
        await client.ping()
        assert "traceparent" not in peer.got("ping")[0].params.get("_meta", {})


def test_without_the_extra_the_error_explains_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(UsageError, match=r"jackstay\[otel\]"):
        opentelemetry()
