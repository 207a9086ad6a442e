"""Prometheus metrics over HTTP: calls of each tool by outcome, and their duration.

Labels are names of tools and error codes only, so that callers cannot create new time series. `/metrics` exists only
with `server.metrics`, and requires the same key as the rest of the server.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from jackstay.server.http import Asgi, Guard, Receive, Scope, Send

# The path of the metrics endpoint.
PATH: Final = "/metrics"

# Seconds. An exact name takes 0.1 ms, a cached page 1 ms, and a fetch up to its timeout of 30 s.
BUCKETS: Final = (0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)

_CONTENT_TYPE: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Metrics:
    """The counters. `count` is called once for each tool call, on the event loop of the server."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Metrics of {self._calls.total()} calls>"

    def count(self, tool: str, outcome: str, seconds: float) -> None:
        """Record a finished call. `outcome` is `ok` or an error code."""
        self._calls[tool, outcome] += 1
        buckets = self._buckets.setdefault(tool, [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[tool] = self._seconds.get(tool, 0.0) + seconds

    def text(self, gauges: Mapping[str, float] | None = None) -> str:
        """Return all metrics in the Prometheus text format; `gauges` are the current values of the gauges."""
        lines = [
            "# HELP procontext_tool_calls_total Tool calls by outcome.",
            "# TYPE procontext_tool_calls_total counter",
        ]
        for (tool, outcome), number in sorted(self._calls.items()):
            lines.append(f'procontext_tool_calls_total{{tool="{tool}",outcome="{outcome}"}} {number}')
        lines += [
            "# HELP procontext_tool_seconds Duration of tool calls.",
            "# TYPE procontext_tool_seconds histogram",
        ]
        for tool, buckets in sorted(self._buckets.items()):
            cumulative = 0
            for bound, number in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
                cumulative += number
                lines.append(f'procontext_tool_seconds_bucket{{tool="{tool}",le="{bound}"}} {cumulative}')
            lines.append(f'procontext_tool_seconds_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}')
            lines.append(f'procontext_tool_seconds_count{{tool="{tool}"}} {cumulative}')
        for name, value in sorted((gauges or {}).items()):
            lines += [f"# TYPE procontext_{name} gauge", f"procontext_{name} {value:g}"]
        return "\n".join([*lines, ""])


# Returns the current values of the gauges.
Gauges: TypeAlias = Callable[[], Mapping[str, float]]


class MetricsApp:
    """An ASGI app that serves `/metrics` and passes everything else to another app."""

    def __init__(self, app: "Asgi", metrics: Metrics, gauges: Gauges, guard: "Guard | None") -> None:
        self._app = app
        self._metrics = metrics
        self._gauges = gauges
        self._guard = guard

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """ASGI 3."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        headers = [_CONTENT_TYPE]
        status, body = 200, self._metrics.text(self._gauges()).encode()
        if self._guard is not None:
            sent = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            found = await self._guard.authenticate(scope["method"], PATH, sent)
            refused: int | None = getattr(found, "status", None)
            if refused is not None:
                status, body = refused, b"missing or invalid credentials\n"
                headers.append((b"www-authenticate", b'Bearer realm="mcp"'))
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


__all__ = ["BUCKETS", "PATH", "Gauges", "Metrics", "MetricsApp"]
