"""Prometheus: what a client does as a few metrics, for `client.on_event()`. Needs `prometheus-client`.

The library is asked for when the listener is made, never on import: a program without it pays nothing. Names of metrics and
labels are stable. Labels take few values: a method that MCP does not define is `other`, whatever a program calls it.

Above: users. Below: `_telemetry` (the events), `prometheus_client`.
"""

import importlib
from typing import Any
from weakref import WeakKeyDictionary

from jackstay.client._telemetry import Fields, Listener
from jackstay.errors import McpError, UsageError
from jackstay.protocol import METHODS

# From a ping over a pipe to a tool that works for the longest that a call may take by default.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# Every metric: its kind, what it says, and its labels beside `client`; `docs/client.md` shows the same.
METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "jackstay_client_requests_total": (
        "Counter",
        "Requests that ended, by how they did.",
        ("method", "outcome"),
    ),
    "jackstay_client_request_seconds": (
        "Histogram",
        "How long requests took, however they ended.",
        ("method",),
    ),
    "jackstay_client_transitions_total": (
        "Counter",
        "Changes of state, by the state that was entered.",
        ("state",),
    ),
    "jackstay_client_reconnects_total": ("Counter", "Times that it was ready again after a loss.", ()),
    "jackstay_client_violations_total": ("Counter", "Times that the server broke the protocol.", ()),
}

# A registry takes a metric of one name once; every client that reports to it shares them.
_MADE: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def prometheus(registry: Any = None) -> Listener:
    """A listener for `client.on_event()` that counts. `registry` is prometheus_client's; by default the process's.

    Raises: UsageError that says what to install, where prometheus-client is missing.
    """
    try:
        library: Any = importlib.import_module("prometheus_client")
    except ImportError as missing:
        message = "metrics need prometheus-client: pip install prometheus-client"
        raise UsageError(message, path="prometheus") from missing
    used = library.REGISTRY if registry is None else registry
    if used not in _MADE:
        _MADE[used] = {name: _metric(library, used, name) for name in METRICS}
    made = _MADE[used]
    requests, seconds = made["jackstay_client_requests_total"], made["jackstay_client_request_seconds"]

    def listen(name: str, fields: Fields) -> None:
        client = fields["client"]
        if name in ("jackstay.request.stop", "jackstay.request.exception"):
            method = fields["method"] if fields["method"] in METHODS else "other"
            requests.labels(client, method, _outcome(fields)).inc()
            duration = fields["duration_ns"]
            assert isinstance(duration, int)  # see EVENTS
            seconds.labels(client, method).observe(duration / 1e9)
        elif name == "jackstay.connection.transition":
            made["jackstay_client_transitions_total"].labels(client, fields["to"]).inc()
            if fields["to"] == "ready" and fields["epoch"] != 1:
                made["jackstay_client_reconnects_total"].labels(client).inc()
        elif name == "jackstay.protocol.violation":
            made["jackstay_client_violations_total"].labels(client).inc()

    return listen


def _metric(library: Any, registry: Any, name: str) -> Any:
    kind, words, labels = METRICS[name]
    more = {"buckets": BUCKETS} if kind == "Histogram" else {}
    return getattr(library, kind)(name, words, ("client", *labels), registry=registry, **more)


def _outcome(fields: Fields) -> str:
    """`ok`, the `type` of the error, or `cancelled`: who called gave it up."""
    if "reason" not in fields:
        return "ok"
    reason = fields["reason"]
    return reason.type if isinstance(reason, McpError) else "cancelled"
