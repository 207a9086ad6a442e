"""`/metrics` in the Prometheus text format."""

import logging

import pytest
from apcore import Executor, MetricsCollector, MetricsMiddleware, Registry
from prometheus_client.parser import text_string_to_metric_families

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.metrics import CONTENT_TYPE, Metrics
from apcore_mcp.server.router import ExecutionRouter
from jackstay.server import Server
from jackstay.server.http import keys
from peers.asgi import request_app_sync

KEY = "alice-0123456789abcdef"


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Return every sample by name, tool and outcome."""
    order = ("tool", "module_id", "outcome", "status", "le")
    return {
        (sample.name, *(sample.labels[label] for label in order if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def test_calls_errors_and_durations_by_tool(executor: Executor, catalogue: Catalogue) -> None:
    router = ExecutionRouter(executor, catalogue=catalogue)
    metrics = Metrics(catalogue)
    router.on_call(metrics.observe)

    await router.handle_call("math.add", {"a": 1})
    await router.handle_call("math-add", {"a": 2})
    await router.handle_call("math.add", {"a": "no number"})
    await router.handle_call("nobody.here", {})
    found = values(metrics.export())
    assert found["apcore_mcp_tool_calls_total", "math.add", "ok"] == 2
    assert found["apcore_mcp_tool_calls_total", "math.add", "error"] == 1
    assert found["apcore_mcp_tool_errors_total", "math.add"] == 1
    assert found["apcore_mcp_tool_call_seconds_count", "math.add"] == 3
    assert found["apcore_mcp_tool_call_seconds_sum", "math.add"] > 0
    assert found[("apcore_mcp_tools",)] == 4
    assert not any("nobody.here" in labels for labels in found), "an unknown tool must not become a label"


def test_cancelled_call_is_not_an_error(catalogue: Catalogue) -> None:
    metrics = Metrics(catalogue)
    metrics.observe(catalogue.tools()[0], 0.1, "cancelled")
    found = values(metrics.export())
    assert found["apcore_mcp_tool_calls_total", "math.add", "cancelled"] == 1
    assert ("apcore_mcp_tool_errors_total", "math.add") not in found


def test_gauges_follow_the_catalogue(catalogue: Catalogue) -> None:
    metrics = Metrics(catalogue)
    catalogue.skip("math.add", "broken")
    found = values(metrics.export())
    assert (found[("apcore_mcp_tools",)], found[("apcore_mcp_modules_skipped",)]) == (3, 1)


async def test_collector_metrics_come_first(registry: Registry, catalogue: Catalogue) -> None:
    collector = MetricsCollector()
    executor = Executor(registry, middlewares=[MetricsMiddleware(collector)])
    await executor.call_async("math.add", {"a": 1, "b": 2})
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
            raise OSError("the store is unavailable")
        return self._text


@pytest.mark.parametrize("text", ["", "\n", "a 1", "a 1\n", "a 1\n# EOF\n"])
def test_collector_output_ends_with_a_newline(catalogue: Catalogue, text: str) -> None:
    exported = Metrics(catalogue, Exporter(text)).export()
    assert values(exported)[("apcore_mcp_tools",)] == 4
    assert b"# EOF" not in exported
    assert ("a",) in values(exported) or not text.strip()


def test_failing_collector_is_omitted(catalogue: Catalogue, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "apcore_mcp.metrics"):
        exported = Metrics(catalogue, Exporter(None)).export()
    assert ("apcore_mcp_tools",) in values(exported)
    assert "cannot export the metrics collector" in caplog.text


def test_page_has_the_access_rules_of_the_endpoint(catalogue: Catalogue) -> None:
    page = Metrics(catalogue).page(Server("demo").asgi(auth=keys(KEY)))
    response = request_app_sync(page, "GET", "/metrics", authorization=f"Bearer {KEY}")
    assert (response.status, response.headers["content-type"]) == (200, CONTENT_TYPE)
    assert values(response.body)[("apcore_mcp_tools",)] == 4
    assert request_app_sync(page, "GET", "/metrics").status == 401
    assert request_app_sync(page, "GET", "/metrics", host="evil.example").status == 403
    assert request_app_sync(page, "POST", "/metrics", body={}, authorization=f"Bearer {KEY}").status == 405
