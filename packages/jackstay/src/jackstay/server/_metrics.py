"""Prometheus metrics of a server: requests and tool calls by outcome, and the duration of tool calls.

Needs no library. Labels are methods, registered tools and outcomes, so that callers cannot create new time series.
"""

import asyncio
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jackstay.errors import McpError
from jackstay.server._context import Context
from jackstay.server._dispatch import Next
from jackstay.server._hooks import Hooks
from jackstay.server._middleware import outcome_of, target_of

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi, Guard, Receive, Scope, Send

# Seconds: from a call that only computes to one that waits for the network.
BUCKETS = (0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0, 60.0)

# The Content-Type of the text format, and the path at which it is served.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"

# Outcomes that are not errors.
_FINE = ("ok", "cancelled", "input_required")


class Metrics(Hooks):
    """Counts requests as middleware, or calls of tools by `count()`; `text()` is the page for Prometheus.

    The names of the metrics begin with `prefix`. `gauges()` returns the current values of the gauges.
    """

    def __init__(
        self,
        prefix: str = "mcp_server",
        *,
        gauges: Callable[[], Mapping[str, float]] | None = None,
        seconds: str = "tool_seconds",
        buckets: Sequence[float] = BUCKETS,
    ) -> None:
        self._prefix = prefix
        self._gauges = gauges
        self._seconds_name = seconds
        self._bounds = tuple(buckets)
        self._requests: Counter[tuple[str, str]] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Metrics of {self._calls.total()} calls>"

    async def on_request(self, ctx: Context, call_next: Next) -> bytes:
        """Count a request, and the call of a registered tool."""
        started = time.perf_counter()
        outcome = "error"
        try:
            encoded = await call_next()
            outcome = outcome_of(encoded)
            return encoded
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except McpError as error:
            outcome = error.type
            raise
        finally:
            with self._lock:
                self._requests[ctx.method, outcome] += 1
            entry = ctx._dispatch.catalogue.find_tool(target_of(ctx)) if ctx.method == "tools/call" else None
            if entry is not None:
                self.count(entry.key, outcome, time.perf_counter() - started)

    def count(self, tool: str, outcome: str, seconds: float) -> None:
        """Record a finished call. `outcome` is "ok", "cancelled", "input_required" or a kind of error. Thread-safe."""
        with self._lock:
            self._calls[tool, outcome] += 1
            buckets = self._buckets.setdefault(tool, [0] * (len(self._bounds) + 1))
            buckets[bisect_left(self._bounds, seconds)] += 1
            self._seconds[tool] = self._seconds.get(tool, 0.0) + seconds

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        with self._lock:
            errors: Counter[tuple[str, ...]] = Counter()
            for (tool, outcome), number in self._calls.items():
                if outcome not in _FINE:
                    errors[(tool,)] += number
            lines = [
                *self._family("requests_total", "Requests by outcome.", ("method", "outcome"), self._requests),
                *self._family("tool_calls_total", "Tool calls by outcome.", ("tool", "outcome"), self._calls),
                *self._family("tool_errors_total", "Failed tool calls.", ("tool",), errors),
                *self._histogram(),
            ]
        for name, value in sorted((self._gauges() if self._gauges is not None else {}).items()):
            lines += [f"# TYPE {self._prefix}_{name} gauge", f"{self._prefix}_{name} {value:g}"]
        return "\n".join([*lines, ""])

    def _family(self, name: str, about: str, labels: tuple[str, ...], rows: Mapping[Any, int]) -> list[str]:
        full = f"{self._prefix}_{name}"
        lines = [f"# HELP {full} {about}", f"# TYPE {full} counter"]
        for key, number in sorted(rows.items()):
            pairs = ",".join(f'{label}="{_escape(value)}"' for label, value in zip(labels, key, strict=True))
            lines.append(f"{full}{{{pairs}}} {number}")
        return lines if rows else []

    def _histogram(self) -> list[str]:
        full = f"{self._prefix}_{self._seconds_name}"
        lines = [f"# HELP {full} Duration of tool calls.", f"# TYPE {full} histogram"]
        for tool, buckets in sorted(self._buckets.items()):
            label, cumulative = f'tool="{_escape(tool)}"', 0
            for bound, number in zip((*map(str, self._bounds), "+Inf"), buckets, strict=True):
                cumulative += number
                lines.append(f'{full}_bucket{{{label},le="{bound}"}} {cumulative}')
            lines.append(f"{full}_sum{{{label}}} {self._seconds[tool]:.6f}")
            lines.append(f"{full}_count{{{label}}} {cumulative}")
        return lines if self._buckets else []

    def wrap_app(self, app: "App | Asgi", guard: "Guard | None" = None) -> "Asgi":
        """Return an ASGI app that serves `/metrics` and passes everything else to `app`: `run(wrap_app=...)`.

        Callers need what the guard of the app requires, or `guard`.
        """
        guard = guard or getattr(app, "guard", None)

        async def served(scope: "Scope", receive: "Receive", send: "Send") -> None:
            if scope["type"] != "http" or scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
                await app(scope, receive, send)
                return
            headers = [(b"content-type", CONTENT_TYPE.encode())]
            status, body = 200, self.text().encode()
            if guard is not None:
                sent = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
                refused: int | None = getattr(await guard.authenticate(scope["method"], PATH, sent), "status", None)
                if refused is not None:
                    status, body = refused, b"missing or invalid credentials\n"
                    headers.append((b"www-authenticate", b'Bearer realm="mcp"'))
            headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

        return served


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def prometheus(prefix: str = "mcp_server", *, gauges: Callable[[], Mapping[str, float]] | None = None) -> Metrics:
    """Create middleware that counts requests: `server.add_middleware(metrics)`. `metrics.text()` is for Prometheus."""
    return Metrics(prefix, gauges=gauges)
