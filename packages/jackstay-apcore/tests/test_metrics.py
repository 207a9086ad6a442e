"""F-021, F-022: `/metrics` in Prometheus' text format, from the executor's collector and ours, read back by Prometheus' parser."""

import asyncio
import logging

import pytest
from apcore import Executor, MetricsCollector, MetricsMiddleware, Registry
from prometheus_client.parser import text_string_to_metric_families

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.metrics import CONTENT_TYPE, Metrics
from apcore_mcp.server.router import ExecutionRouter
from jackstay.server import Server
from jackstay.server.http import keys
from peers.asgi import asked

KEY = "alice-0123456789abcdef"


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Every sample by its name, whom it is about, and how that ended."""
    order = ("tool", "module_id", "outcome", "status", "le")
    return {
        (sample.name, *(sample.labels[label] for label in order if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_calls_errors_and_seconds_are_counted_by_tool(executor: Executor, catalogue: Catalogue) -> None:
    router = ExecutionRouter(executor, catalogue=catalogue)
    metrics = Metrics(catalogue)
    router.on_call(metrics.observe)

    async def calls() -> None:
        await router.handle_call("math.add", {"a": 1})
        await router.handle_call("math-add", {"a": 2})
        await router.handle_call("math.add", {"a": "no number"})
        await router.handle_call("nobody.here", {})

    asyncio.run(calls())
    found = values(metrics.export())
    assert found["apcore_mcp_tool_calls_total", "math.add", "ok"] == 2
    assert found["apcore_mcp_tool_calls_total", "math.add", "error"] == 1
    assert found["apcore_mcp_tool_errors_total", "math.add"] == 1
    assert found["apcore_mcp_tool_call_seconds_count", "math.add"] == 3
    assert found["apcore_mcp_tool_call_seconds_sum", "math.add"] > 0
    assert found[("apcore_mcp_tools",)] == 4
    assert not any("nobody.here" in labels for labels in found), (
        "a name that is not offered must make no label"
    )


def test_a_cancelled_call_is_no_error(catalogue: Catalogue) -> None:
    metrics = Metrics(catalogue)
    metrics.observe(catalogue.tools()[0], 0.1, "cancelled")
    found = values(metrics.export())
    assert found["apcore_mcp_tool_calls_total", "math.add", "cancelled"] == 1
    assert ("apcore_mcp_tool_errors_total", "math.add") not in found


def test_the_numbers_of_tools_follow_the_catalogue(catalogue: Catalogue) -> None:
    metrics = Metrics(catalogue)
    catalogue.skip("math.add", "broken")
    found = values(metrics.export())
    assert (found[("apcore_mcp_tools",)], found[("apcore_mcp_modules_skipped",)]) == (3, 1)


def test_what_the_executors_collector_has_is_shown_before_ours(
    registry: Registry, catalogue: Catalogue
) -> None:
    collector = MetricsCollector()
    executor = Executor(registry, middlewares=[MetricsMiddleware(collector)])
    asyncio.run(executor.call_async("math.add", {"a": 1, "b": 2}))
    text = Metrics(catalogue, collector).export()
    found = values(text)
    assert found["apcore_module_calls_total", "math.add", "success"] == 1
    assert ("apcore_mcp_tools",) in found
    assert text.index(b"apcore_module_calls_total") < text.index(b"apcore_mcp_tools")


class Exporter:
    def __init__(self, text: str | None) -> None:
        self._text = text

    def export_prometheus(self) -> str:
        if self._text is None:
            raise OSError("the store is gone")
        return self._text


@pytest.mark.parametrize("text", ["", "\n", "a 1", "a 1\n", "a 1\n# EOF\n"])
def test_whatever_a_collector_ends_with_ours_begins_on_a_line_of_its_own(
    catalogue: Catalogue, text: str
) -> None:
    exported = Metrics(catalogue, Exporter(text)).export()
    assert values(exported)[("apcore_mcp_tools",)] == 4
    assert b"# EOF" not in exported
    assert ("a",) in values(exported) or not text.strip()


def test_a_collector_that_fails_does_not_hide_our_numbers(
    catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "apcore_mcp.metrics"):
        exported = Metrics(catalogue, Exporter(None)).export()
    assert ("apcore_mcp_tools",) in values(exported)
    assert "could not be exported" in caplog.text


def test_the_page_is_held_to_the_rules_of_the_endpoint(catalogue: Catalogue) -> None:
    page = Metrics(catalogue).page(Server("demo").asgi(auth=keys(KEY)))
    answer = asked(page, "GET", "/metrics", authorization=f"Bearer {KEY}")
    assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    assert values(answer.body)[("apcore_mcp_tools",)] == 4
    assert asked(page, "GET", "/metrics").status == 401
    assert asked(page, "GET", "/metrics", host="evil.example").status == 403
    assert asked(page, "POST", "/metrics", body={}, authorization=f"Bearer {KEY}").status == 405
