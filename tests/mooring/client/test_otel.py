"""OpenTelemetry, spoken to through a stand-in with the few calls that are used of it."""

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from mooring.client import opentelemetry
from mooring.errors import JsonRpcError, UsageError
from scripted.loop import timeless
from scripted.peer import Refusal, opened, said


class Span:
    def __init__(self, name: str, kind: str, attributes: dict[str, Any]) -> None:
        self.name, self.kind, self.attributes = name, kind, dict(attributes)
        self.status: Any = None
        self.ends = 0

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self) -> None:
        self.ends += 1


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, kind: str, attributes: dict[str, Any]) -> Span:
        self.spans.append(Span(name, kind, attributes))
        return self.spans[-1]


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    """The global tracer of the stand-in."""
    made = Tracer()
    package, trace, propagate = (ModuleType(f"opentelemetry{end}") for end in ("", ".trace", ".propagate"))
    trace.SpanKind = type("SpanKind", (), {"CLIENT": "client"})  # type: ignore[attr-defined]
    trace.StatusCode = type("StatusCode", (), {"ERROR": "error"})  # type: ignore[attr-defined]
    trace.Status = lambda code, words: (code, words)  # type: ignore[attr-defined]
    trace.get_tracer = lambda name: made  # type: ignore[attr-defined]
    trace.set_span_in_context = lambda span: span  # type: ignore[attr-defined]

    def inject(carrier: dict[str, str], context: Span) -> None:
        carrier["traceparent"] = f"00-{made.spans.index(context)}"

    propagate.inject = inject  # type: ignore[attr-defined]
    for module in (package, trace, propagate):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


@timeless
async def test_each_request_is_a_span_and_the_server_gets_its_trace(tracer: Tracer) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry())
        peer.on["tools/call"] = said("hi")
        peer.on["resources/read"] = {"contents": []}
        await client.tools.call("greet", meta={"tenant": "a"})
        await client.resources.read("file:///a")
        await client.ping()
        assert [span.name for span in tracer.spans] == ["tools/call greet", "resources/read", "ping"]
        first = tracer.spans[0]
        call = peer.got("tools/call")[0]
        assert first.attributes == {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": "greet",
            "jsonrpc.request.id": str(call["id"]),
        }
        assert call["params"]["_meta"] == {"traceparent": "00-0", "tenant": "a"}
        assert (first.kind, first.ends, first.status) == ("client", 1, None)
        client.trace_with(None)
        await client.ping()
        assert len(tracer.spans) == 3


@timeless
async def test_what_the_caller_puts_into_meta_stands(tracer: Tracer) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry(Tracer()))
        assert tracer.spans == []
        client.trace_with(opentelemetry())
        await client.ping(meta={"traceparent": "mine"})
        assert peer.got("ping")[0]["params"]["_meta"] == {"traceparent": "mine"}
        assert peer.frames[-1].count(b"traceparent") == 1


@timeless
async def test_a_span_says_how_its_request_failed(tracer: Tracer) -> None:
    async with opened() as (client, peer):
        client.trace_with(opentelemetry())

        def refuse(params: Any) -> None:
            raise Refusal(-32602)

        peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError):
            await client.tools.call("greet")
        peer.on["tools/call"] = None
        call = client.submit("tools/call", {"name": "greet"})
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
    assert [span.ends for span in tracer.spans] == [1, 1]
    refused, cancelled = tracer.spans
    assert refused.attributes["error.type"] == "jsonrpc"
    assert refused.attributes["rpc.response.status_code"] == "-32602"
    assert refused.status[0] == "error"
    assert cancelled.attributes["error.type"] == "CancelledError"


@timeless
async def test_a_refused_call_has_no_id_and_says_that_it_did_not_run(tracer: Tracer) -> None:
    async with opened() as (client, _):
        client.trace_with(opentelemetry())
        await client.stop()
        with pytest.raises(Exception, match="closed"):
            await client.submit("ping")
    await asyncio.sleep(0)
    (span,) = tracer.spans
    assert "jsonrpc.request.id" not in span.attributes
    assert span.attributes["mooring.may_have_run"] is False


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(UsageError, match=r"mooring\[otel\]"):
        opentelemetry()
