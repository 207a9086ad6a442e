"""Prometheus metrics for `client.on_event()`. Needs `prometheus-client`, which is imported when the listener is made.

Names of metrics and labels are stable. Labels have low cardinality: a method that MCP does not define is `other`.
"""

import importlib
from typing import Any
from weakref import WeakKeyDictionary

from jackstay.client._telemetry import Fields, Listener
from jackstay.errors import McpError, UsageError
from jackstay.protocol import METHODS

# From a ping over a pipe up to the default `max_timeout`.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# Every metric: type, help text, and labels besides `client`. `docs/client.md` has the same table.
METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "jackstay_client_requests_total": ("Counter", "Completed requests by outcome.", ("method", "outcome")),
    "jackstay_client_request_seconds": ("Histogram", "Duration of requests.", ("method",)),
    "jackstay_client_transitions_total": ("Counter", "State transitions by new state.", ("state",)),
    "jackstay_client_reconnects_total": ("Counter", "Successful reconnects.", ()),
    "jackstay_client_violations_total": ("Counter", "Protocol violations by the server.", ()),
}

# A registry accepts each metric name once, so all clients that use it share the metrics.
_METRICS_BY_REGISTRY: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


def prometheus(registry: Any = None) -> Listener:
    """Return a listener for `client.on_event()` that updates the metrics in `registry` (default: the global registry).

    Raises: UsageError if prometheus-client is not installed.
    """
    try:
        library: Any = importlib.import_module("prometheus_client")
    except ImportError as missing:
        message = "prometheus-client is not installed; run pip install prometheus-client"
        raise UsageError(message, path="prometheus") from missing
    if registry is None:
        registry = library.REGISTRY
    if registry not in _METRICS_BY_REGISTRY:
        _METRICS_BY_REGISTRY[registry] = [_metric(library, registry, name) for name in METRICS]
    requests, seconds, transitions, reconnects, violations = _METRICS_BY_REGISTRY[registry]

    def listen(name: str, fields: Fields) -> None:
        client = fields["client"]
        if name in ("jackstay.request.stop", "jackstay.request.exception"):
            method = fields["method"] if fields["method"] in METHODS else "other"
            requests.labels(client, method, _outcome(fields)).inc()
            duration = fields["duration_ns"]
            assert isinstance(duration, int)  # see EVENTS
            seconds.labels(client, method).observe(duration / 1e9)
        elif name == "jackstay.connection.transition":
            transitions.labels(client, fields["to"]).inc()
            if fields["to"] == "ready" and fields["epoch"] != 1:
                reconnects.labels(client).inc()
        elif name == "jackstay.protocol.violation":
            violations.labels(client).inc()

    return listen


def _metric(library: Any, registry: Any, name: str) -> Any:
    kind, help_text, labels = METRICS[name]
    options = {"buckets": BUCKETS} if kind == "Histogram" else {}
    return getattr(library, kind)(name, help_text, ("client", *labels), registry=registry, **options)


def _outcome(fields: Fields) -> str:
    """Return `ok`, the `type` of the error, or `cancelled`."""
    if "reason" not in fields:
        return "ok"
    reason = fields["reason"]
    return reason.type if isinstance(reason, McpError) else "cancelled"
