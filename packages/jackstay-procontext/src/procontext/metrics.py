"""What the server has done, in numbers: calls of each tool by outcome, and how long they took. For Prometheus, over HTTP.

Only names of ours become labels (tools and codes of the catalogue), so the numbers cannot be made to grow by what callers
send. `/metrics` is off unless `server.metrics` says otherwise, and asks for the same key as everything else.

Must never know how a tool works. Above: `app`. Below: `jackstay.server.http` for the words of ASGI.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from jackstay.server.http import Asgi, Guard, Receive, Scope, Send

# Where Prometheus looks.
PATH: Final = "/metrics"

# Seconds. An exact name takes a tenth of a millisecond, a cached page one, a fetch may take all of its thirty seconds.
BUCKETS: Final = (0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)

_KIND: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Metrics:
    """The numbers. `count` is called once for each call of a tool, on the loop that serves."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Metrics of {self._calls.total()} calls>"

    def count(self, tool: str, outcome: str, seconds: float) -> None:
        """A call ended: `outcome` is `ok` or a code of the catalogue."""
        self._calls[tool, outcome] += 1
        buckets = self._buckets.setdefault(tool, [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[tool] = self._seconds.get(tool, 0.0) + seconds

    def text(self, gauges: Mapping[str, float] | None = None) -> str:
        """Everything in Prometheus's text format; `gauges` are numbers of the moment."""
        lines = [
            "# HELP procontext_tool_calls_total Calls of tools, by outcome.",
            "# TYPE procontext_tool_calls_total counter",
        ]
        for (tool, outcome), number in sorted(self._calls.items()):
            lines.append(f'procontext_tool_calls_total{{tool="{tool}",outcome="{outcome}"}} {number}')
        lines += [
            "# HELP procontext_tool_seconds How long calls of tools took.",
            "# TYPE procontext_tool_seconds histogram",
        ]
        for tool, buckets in sorted(self._buckets.items()):
            so_far = 0
            for bound, number in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
                so_far += number
                lines.append(f'procontext_tool_seconds_bucket{{tool="{tool}",le="{bound}"}} {so_far}')
            lines.append(f'procontext_tool_seconds_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}')
            lines.append(f'procontext_tool_seconds_count{{tool="{tool}"}} {so_far}')
        for name, value in sorted((gauges or {}).items()):
            lines += [f"# TYPE procontext_{name} gauge", f"procontext_{name} {value:g}"]
        return "\n".join([*lines, ""])


# The numbers of this moment, when somebody asks.
Gauges: TypeAlias = Callable[[], Mapping[str, float]]


class MetricsApp:
    """An ASGI app that answers `/metrics` itself and hands everything else on."""

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
        headers = [_KIND]
        status, body = 200, self._metrics.text(self._gauges()).encode()
        if self._guard is not None:
            sent = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
            }
            found = await self._guard.admit(scope["method"], PATH, sent)
            refused: int | None = getattr(found, "status", None)
            if refused is not None:
                status, body = refused, b"a key is needed\n"
                headers.append((b"www-authenticate", b'Bearer realm="mcp"'))
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


__all__ = ["BUCKETS", "PATH", "Gauges", "Metrics", "MetricsApp"]
