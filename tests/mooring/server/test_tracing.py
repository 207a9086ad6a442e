"""Tracing: the caller's trace goes on, and a missing library is named."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chaos.servers_own.conversation import run, talking
from mooring.errors import UsageError
from mooring.server import Server, trace_requests

SPANS: list[tuple[str, dict[str, Any]]] = []


class Tracer:
    """What is used of OpenTelemetry's."""

    @contextmanager
    def start_as_current_span(self, name: str, **options: Any) -> Iterator[None]:
        SPANS.append((name, options))
        yield


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    SPANS.clear()
    trace, propagate = ModuleType("opentelemetry.trace"), ModuleType("opentelemetry.propagate")
    vars(trace).update(get_tracer=lambda name: Tracer(), SpanKind=SimpleNamespace(SERVER="server"))
    vars(propagate).update(extract=lambda carrier: dict(carrier))
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", propagate)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("tracer", [None, Tracer()])
def test_a_request_is_a_span_of_the_callers_trace(tracer: Any) -> None:
    server = Server("traced")
    server.tool(name="echo", blocking=False)(lambda: "x")
    server.add_middleware(trace_requests(tracer))

    async def test() -> None:
        async with talking(server) as peer:
            trace = {"traceparent": "00-abc-def-01", "other": 1, "baggage": 7}
            await peer.result("tools/call", {"name": "echo", "_meta": trace})
            await peer.result("tools/list")
        (call, options), (listing, _) = SPANS
        assert (call, listing) == ("tools/call echo", "tools/list")
        assert options["context"] == {"traceparent": "00-abc-def-01"}
        assert options["kind"] == "server"
        assert options["attributes"]["mcp.method.name"] == "tools/call"

    run(test)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match=r"pip install 'mooring\[otel\]'"):
        trace_requests()
