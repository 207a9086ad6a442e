"""Prometheus metrics at `/metrics`: calls, errors and durations by tool, and the metrics of the executor's collector.

The counters here include every call through the router; the collector of apcore also counts calls between modules. The
label is the module id; a call of an unknown tool creates no label.
"""

import logging
from typing import TYPE_CHECKING, Final, Protocol

from apcore_mcp.access import authorize
from jackstay import server
from jackstay.inspector import RequestRejected, respond, respond_error
from jackstay.protocol.http import error_response

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue, Entry
    from apcore_mcp.server.router import Outcome
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

logger = logging.getLogger("apcore_mcp.metrics")

# The path of the metrics endpoint, and the Content-Type of the Prometheus text format.
METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Seconds.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class MetricsExporter(Protocol):
    """A metrics collector, such as `MetricsCollector` of apcore."""

    def export_prometheus(self) -> str:
        """Return all metrics in the text format."""


class Metrics(server.Metrics):
    """The metrics. Pass `observe` to `ExecutionRouter.on_call`; `export()` is the page for Prometheus."""

    def __init__(self, catalogue: "Catalogue", collector: MetricsExporter | None = None) -> None:
        def gauges() -> dict[str, float]:
            return {"tools": len(catalogue), "modules_skipped": len(catalogue.skipped())}

        super().__init__("apcore_mcp", gauges=gauges, seconds="tool_call_seconds", buckets=BUCKETS)
        self._collector = collector

    def observe(self, entry: "Entry", seconds: float, outcome: "Outcome") -> None:
        """Record one call. Thread-safe."""
        self.count(entry.id, outcome, seconds)

    def export(self) -> bytes:
        """Return all metrics in the text format. A failing collector is omitted and logged."""
        own = self.text().encode()
        if self._collector is None:
            return own
        try:
            # Nothing is read after the end marker of OpenMetrics.
            text = self._collector.export_prometheus().removesuffix("# EOF\n").rstrip("\n")
            collected = f"{text}\n".encode() if text else b""
        except Exception:  # a failing collector must not hide the other metrics
            logger.exception("cannot export the metrics collector")
            return own
        return collected + own

    def page(self, app: "App") -> "Asgi":
        """Return the page at `/metrics`, for callers that may use the endpoint."""

        async def page(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001  # the ASGI signature
            try:
                await authorize(app, scope)
                if scope["method"] not in ("GET", "HEAD"):
                    raise RequestRejected(error_response(405, "/metrics allows only GET"))
            except RequestRejected as error:
                await respond_error(send, error.response)
                return
            await respond(send, 200, CONTENT_TYPE, self.export())

        return page


__all__ = ["BUCKETS", "CONTENT_TYPE", "METRICS_PATH", "Metrics", "MetricsExporter"]
