"""Numbers for Prometheus: calls, errors and seconds by tool, and whatever the executor's own collector has.

Ours count every call that goes through the router, whoever made it; apcore's collector counts what its middleware sees, modules
that modules call among it. Both are shown at `/metrics`, one after the other. Tools are labelled with module ids, of which
there are as many as modules were ever offered; what a client calls by a name that is not offered makes no label.

Must never know a transport. Above: `pages`. Below: `prometheus_client` (the extra `apcore` brings it), `catalogue`, the router.
"""

import logging
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from apcore_mcp.admission import admit
from apcore_mcp.answers import Refused, answer, answer_refusal
from jackstay.protocol.http import refuse

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue, Entry
    from apcore_mcp.server.router import Outcome
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

logger = logging.getLogger("apcore_mcp.metrics")

# Where it is, and in which format of Prometheus: the text one, which every version reads.
METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Seconds. From what a call costs at the least, to where people stop waiting.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class MetricsExporter(Protocol):
    """A collector that can be shown; apcore's `MetricsCollector` is one."""

    def export_prometheus(self) -> str:
        """All its numbers, in the text format."""


class Metrics:
    """The numbers. Give `observe` to the router's `on_call`; `export()` is what Prometheus reads."""

    def __init__(self, catalogue: "Catalogue", collector: MetricsExporter | None = None) -> None:
        self._collector = collector
        # One of our own: the library's global one belongs to the program around us.
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "apcore_mcp_tool_calls",
            "Calls of tools that have ended, by outcome: ok, error or cancelled",
            ("tool", "outcome"),
            registry=self._registry,
        )
        self._errors = Counter(
            "apcore_mcp_tool_errors",
            "Calls of tools that ended in an error",
            ("tool",),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "apcore_mcp_tool_call_seconds",
            "How long calls of tools took",
            ("tool",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        Gauge("apcore_mcp_tools", "Tools that are offered", registry=self._registry).set_function(
            lambda: len(catalogue)
        )
        Gauge(
            "apcore_mcp_modules_skipped", "Modules that could not be offered", registry=self._registry
        ).set_function(lambda: len(catalogue.skipped()))

    def observe(self, entry: "Entry", seconds: float, outcome: "Outcome") -> None:
        """Count one call. From any thread."""
        self._calls.labels(entry.id, outcome).inc()
        self._seconds.labels(entry.id).observe(seconds)
        if outcome == "error":
            self._errors.labels(entry.id).inc()

    def export(self) -> bytes:
        """Everything, in the text format. A collector that fails is left out, and logged."""
        own: bytes = generate_latest(self._registry)
        if self._collector is None:
            return own
        try:
            # OpenMetrics ends with a mark, after which nothing would be read.
            theirs = self._collector.export_prometheus().removesuffix("# EOF\n").rstrip("\n")
            shown = f"{theirs}\n".encode() if theirs else b""
        except Exception:  # the edge of somebody's collector: it must not hide our numbers
            logger.exception("the metrics collector could not be exported")
            return own
        return shown + own

    def page(self, app: "App") -> "Asgi":
        """What is served at `/metrics`, to who may call the endpoint."""

        async def page(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001  # ASGI's
            try:
                await admit(app, scope)
                if scope["method"] not in ("GET", "HEAD"):
                    raise Refused(refuse(405, "metrics are read with GET"))
            except Refused as error:
                await answer_refusal(send, error.refusal)
                return
            await answer(send, 200, CONTENT_TYPE, self.export())

        return page


__all__ = ["BUCKETS", "CONTENT_TYPE", "METRICS_PATH", "Metrics", "MetricsExporter"]
