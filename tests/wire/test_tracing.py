"""Distributed tracing: the client's span is the parent of the server's."""

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jackstay.client import connect, opentelemetry
from jackstay.server import Server, trace_requests
from jackstay.testing import on_fake_clock
from jackstay.transport import memory_pair
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
