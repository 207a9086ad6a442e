"""Distributed tracing: the client's span is the parent of the server's."""

import asyncio
from typing import Any, ClassVar

import pytest
from apcore import Registry
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from apcore_mcp.bridge import Bridge
from apcore_mcp.options import make_options
from jackstay.client import connect, opentelemetry
from jackstay.server import Server, trace_requests
from jackstay.testing import on_fake_clock
from jackstay.transport import memory_pair
from procontext.app import Application
from procontext.config import Config, ServerSettings
from scripted.peer import ERAS


@pytest.mark.parametrize("version", ERAS)
def test_a_call_is_one_trace_from_the_caller_into_the_tool(version: str) -> None:
    """2026-07-28 basic/index, `traceparent`."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    server = Server("traced")
    server.add_middleware(trace_requests(tracer))

    @server.tool
    async def work() -> str:
        with tracer.start_as_current_span("inside"):
            return "done"

    @on_fake_clock
    async def test() -> None:
        pair = memory_pair()
        serving = asyncio.ensure_future(server.serve(pair.server))
        async with connect(pair.client, versions=(version,)) as client:
            client.trace_with(opentelemetry(tracer))
            assert (await client.tools.call("work")).text == "done"
        await serving

    test()
    spans = {span.name: span for span in exporter.get_finished_spans() if span.kind.name != "CLIENT"}
    (calling,) = [span for span in exporter.get_finished_spans() if span.kind.name == "CLIENT"]
    inside, served = spans["inside"], spans["tools/call work"]
    assert calling.parent is None
    assert served.parent is not None
    assert inside.parent is not None
    assert served.parent.span_id == calling.get_span_context().span_id  # type: ignore[union-attr]  # it has ended
    assert inside.parent.span_id == served.get_span_context().span_id  # type: ignore[union-attr]  # it has ended


class Add:
    """A module of apcore."""

    description = "Add two numbers."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}
    output_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"sum": inputs["a"] + inputs["b"]}


def make_bridge(*, otel: bool) -> Server:
    registry = Registry()
    registry.register("math.add", Add())
    return Bridge(registry, make_options(otel=otel)).server


def make_procontext(*, otel: bool) -> Server:
    application = Application(Config(server=ServerSettings(otel=otel)))
    application.registry.load()
    return application.server()


@pytest.mark.parametrize(
    ("make", "tool", "arguments"),
    [(make_bridge, "math.add", {"a": 1, "b": 2}), (make_procontext, "resolve_library", {"query": "fastapi"})],
)
async def test_both_products_record_spans_and_durations_with_the_option_otel(
    monkeypatch: pytest.MonkeyPatch, make: Any, tool: str, arguments: dict[str, Any]
) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)  # the global one cannot be replaced
    monkeypatch.setattr("opentelemetry.metrics.get_meter", MeterProvider([reader]).get_meter)
    for otel in (False, True):
        async with connect(make(otel=otel)) as client:
            await client.tools.call(tool, arguments)
        assert [span.name for span in exporter.get_finished_spans()].count(f"tools/call {tool}") == int(otel)
    metrics = reader.get_metrics_data()
    assert metrics is not None
    (histogram,) = metrics.resource_metrics[0].scope_metrics[0].metrics
    assert histogram.name == "mcp.server.operation.duration"
    assert tool in {(point.attributes or {}).get("gen_ai.tool.name") for point in histogram.data.data_points}
