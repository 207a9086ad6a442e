"""Call counters and server states of a proxy, as Prometheus metrics and as a status page.

Labels are MCP methods and fixed outcomes, so that clients cannot create new time series.
"""

import html
from collections import Counter, deque
from typing import Final

import msgspec

from jackstay.protocol import METHODS

# How many lines of standard error are kept for the status page, and how many characters of each.
MAX_LINES: Final = 50
MAX_LINE: Final = 500

CSS: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2rem 1.5rem .2rem 0;vertical-align:top}"
    "pre{overflow-x:auto;background:#f4f4f4;color:#111;padding:1rem}"
)


class ServerStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One connection to a server. `state` is `ok`, `down` or `unresponsive`; `cause` is the reason if not `ok`."""

    era: str
    state: str
    restarts: int
    cause: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a proxy at one moment.

    `children` counts the dedicated servers, `unattributed` the notifications and requests from servers that could not
    be attributed to a client.
    """

    name: str
    servers: tuple[ServerStatus, ...]
    in_flight: int
    sessions: int
    children: int = 0
    children_down: int = 0
    unattributed: int = 0

    @property
    def state(self) -> str:
        """`ok` if all shared servers are `ok`; otherwise the state of the first that is not."""
        return next((server.state for server in self.servers if server.state != "ok"), "ok")


class Report(msgspec.Struct, eq=False):
    """Counts calls by method and outcome, and keeps the last lines of the server's standard error."""

    calls: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    seconds: dict[str, float] = {}
    lines: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=MAX_LINES))

    def __repr__(self) -> str:
        return f"<Report of {self.calls.total()} calls>"

    def count(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call: `outcome` is `ok`, `error` (from the server), `cancelled`, or a reason from `_failures`."""
        self.calls[method, outcome] += 1
        self.seconds[method] = self.seconds.get(method, 0.0) + seconds

    def keep_line(self, line: str) -> None:
        """Keep a line that a server wrote to its standard error."""
        self.lines.append(line[:MAX_LINE])


def metrics_text(report: Report, now: Snapshot) -> str:
    """Return all metrics in the Prometheus text format."""
    lines = _head("calls_total", "counter", "Calls that ended, by method and outcome.")
    for (method, outcome), number in sorted(report.calls.items()):
        lines.append(f'jackstay_proxy_calls_total{{method="{_label(method)}",outcome="{outcome}"}} {number}')
    lines += _head("call_seconds", "summary", "Duration of calls, whatever their outcome.")
    for method, seconds in sorted(report.seconds.items()):
        number = sum(count for (other, _), count in report.calls.items() if other == method)
        lines.append(f'jackstay_proxy_call_seconds_sum{{method="{_label(method)}"}} {seconds:.6f}')
        lines.append(f'jackstay_proxy_call_seconds_count{{method="{_label(method)}"}} {number}')
    lines += _head("server_up", "gauge", "1 while the server responds, by the era of the connection.")
    lines += [f'jackstay_proxy_server_up{{era="{server.era}"}} {int(server.state == "ok")}' for server in now.servers]
    lines += _head("server_restarts_total", "counter", "How many times the server reconnected after a loss.")
    lines += [f'jackstay_proxy_server_restarts_total{{era="{server.era}"}} {server.restarts}' for server in now.servers]
    for name, kind, meaning, value in (
        ("in_flight", "gauge", "Calls in flight.", now.in_flight),
        ("sessions", "gauge", "Open sessions.", now.sessions),
        ("children", "gauge", "Servers that are dedicated to one client.", now.children),
        ("unattributed_total", "counter", "Messages from servers that could not be attributed to a client.",
         now.unattributed),
    ):  # fmt: skip
        lines += [*_head(name, kind, meaning), f"jackstay_proxy_{name} {value}"]
    return "\n".join([*lines, ""])


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP jackstay_proxy_{name} {meaning}", f"# TYPE jackstay_proxy_{name} {kind}"]


def _label(method: str) -> str:
    return method if method in METHODS else "other"


def status_page(report: Report, now: Snapshot) -> str:
    """Return the status page as HTML without scripts. Text from a server is escaped."""
    rows = [("state", now.state), ("calls in flight", now.in_flight), ("sessions", now.sessions)]
    for server in now.servers:
        rows += [
            (f"server, {server.era} era", f"{server.state}{f': {server.cause}' if server.cause else ''}"),
            ("restarts", server.restarts),
        ]
    if now.children:
        rows.append(("dedicated servers", f"{now.children}, {now.children_down} down"))
    outcomes: Counter[str] = Counter()
    for (_, outcome), number in report.calls.items():
        outcomes[outcome] += number
    rows += [(f"calls: {outcome}", number) for outcome, number in sorted(outcomes.items())]
    body = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    stderr = html.escape("\n".join(report.lines)) or "(nothing)"
    title = html.escape(now.name)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        f'<meta name="viewport" content="width=device-width"><title>{title}: {html.escape(now.state)}</title>'
        f"<style>{CSS}</style></head><body><h1>{title}</h1><table>{body}</table>"
        f"<h2>Standard error of the server</h2><pre>{stderr}</pre></body></html>\n"
    )
