"""What a client tells whoever listens: one hook, stable names, stable fields.

Every event has `client`, the connection's name. With no listener an event costs its caller one attribute test; a
listener that raises is logged once and kept. Adapters build on this: `_log_events` on the listener, `_otel` on the trace.

Above: `_connection`, which tells; `_requests`, which traces; users, who listen. Below: `jackstay.errors`.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from jackstay.errors import McpError, SessionLostError, ShutdownError

# What an event says, by name.
Fields: TypeAlias = Mapping[str, object]
# Takes the name of an event and its fields.
Listener: TypeAlias = Callable[[str, Fields], None]

logger = logging.getLogger("jackstay.client")

# Every event and its fields beside `client`; `docs/client.md` shows the same.
EVENTS: dict[str, tuple[str, ...]] = {
    "jackstay.request.start": ("method", "id", "corr_id", "system_time_ns"),
    "jackstay.request.stop": ("method", "id", "corr_id", "system_time_ns", "duration_ns"),
    "jackstay.request.exception": (
        "method", "id", "corr_id", "system_time_ns", "duration_ns", "reason", "may_have_run",
    ),
    "jackstay.connection.transition": ("from", "to", "reason", "epoch", "attempt"),
    "jackstay.notification.received": ("method",),
    "jackstay.protocol.violation": ("reason", "frame_size"),
    "jackstay.response.unknown": ("count",),
    "jackstay.response.late": ("count",),
    "jackstay.child.exit": ("code", "signal"),
}  # fmt: skip


class Span(Protocol):
    """One request as a tracer sees it."""

    @property
    def meta(self) -> Mapping[str, str]:
        """Members for the request's `_meta`, so that the server can go on with the trace."""

    def end(self, request_id: int, error: BaseException | None) -> None:
        """The request has its outcome; called once."""


# Begins a span: takes the method and what it is about (the name of a tool, say; empty: nothing to name).
Trace: TypeAlias = Callable[[str, str], Span]


class Telemetry:
    """The listeners of one client. Test `listeners` before making an event: empty means that nobody wants it."""

    __slots__ = ("_accused", "client", "listeners")

    def __init__(self, client: str) -> None:
        self.client = client
        self.listeners: tuple[Listener, ...] = ()
        self._accused: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every event from now on; call what is returned to end that."""
        self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(other for other in self.listeners if other is not listener)

        return unsubscribe

    def log_transition(self, source: str, target: str, reason: McpError | None, attempt: int) -> None:
        """Log a change of state; a lost server and a failed attempt as a warning, with the cause.

        Lost sessions are not among them: the core reports once that a server forgets them. An attempt that is not counted is a step of the negotiation: a server that ends at the probe is started again without it.
        """
        has_failed = target == "backoff" and attempt > 0
        if target in ("closing", "closed") and source in ("starting", "initializing", "ready"):
            has_failed = not isinstance(reason, ShutdownError)
        if not has_failed or isinstance(reason, SessionLostError):
            logger.info("%s: %s -> %s", self.client, source, target)
            return
        extra = {"transition": f"{source} -> {target}"}
        logger.warning("%s: %s -> %s: %s", self.client, source, target, reason, extra=extra)

    def tell(self, name: str, **fields: object) -> None:
        """Give an event to every listener."""
        event = {"client": self.client, **fields}
        for listener in self.listeners:
            try:
                listener(name, event)
            except Exception:  # the outermost edge: a listener is somebody else's code
                if not any(other is listener for other in self._accused):
                    self._accused.append(listener)
                    logger.exception(
                        "a telemetry listener raised; it is kept, and will not be reported again"
                    )
