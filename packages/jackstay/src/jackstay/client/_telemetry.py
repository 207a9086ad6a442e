"""Telemetry events of a client, with stable names and fields.

Every event has `client`, the name of the connection. Without listeners the event of a message costs one attribute test.
The adapters `_otel` and `_prometheus` build on this module.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from jackstay.errors import SessionLostError, ShutdownError
from jackstay.protocol import MAX_VIOLATION_WARNINGS
from jackstay.protocol.client import events as e

# The fields of an event by name.
Fields: TypeAlias = Mapping[str, object]
# Called with the name of an event and its fields.
Listener: TypeAlias = Callable[[str, Fields], None]

logger = logging.getLogger("jackstay.client")

# How much of a server's text is logged.
MAX_QUOTE = 200

# Every event and its fields besides `client`. `docs/client.md` has the same table.
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
    """The span of one request."""

    @property
    def meta(self) -> Mapping[str, str]:
        """Members for `_meta` of the request that propagate the trace context to the server."""

    def end(self, request_id: int, error: BaseException | None) -> None:
        """End the span. Called once, when the request has ended."""


# Starts a span. Arguments: the method and its subject, such as the name of a tool, or "".
Trace: TypeAlias = Callable[[str, str], Span]


class Telemetry(msgspec.Struct, eq=False):
    """The listeners of one client. Test `listeners` before building the event of a message."""

    client: str
    listeners: tuple[Listener, ...] = ()
    _logged: list[Listener] = []
    _violations: int = 0
    # Listeners of the blocking client come from any thread.
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every event. Returns a function that removes the listener."""
        with self._lock:
            self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            with self._lock:
                self.listeners = tuple(other for other in self.listeners if other is not listener)

        return unsubscribe

    def report_transition(self, effect: e.Transition) -> None:
        """Log and emit a state transition; a lost connection and a failed attempt are warnings with the cause.

        A lost session is logged by the core, once. An attempt that is not counted is a step of the version negotiation:
        a server that exits on the probe is started again without it.
        """
        source, target, reason = effect.source, effect.target, effect.reason
        has_failed = target == "backoff" and effect.attempt > 0
        if target in ("closing", "closed") and source in ("starting", "initializing", "ready"):
            has_failed = not isinstance(reason, ShutdownError)
        if not has_failed or isinstance(reason, SessionLostError):
            logger.info("%s: %s -> %s", self.client, source, target)
        else:
            extra = {"transition": f"{source} -> {target}"}
            logger.warning("%s: %s -> %s: %s", self.client, source, target, reason, extra=extra)
        fields = {"from": source, "to": target, "reason": reason, "epoch": effect.epoch, "attempt": effect.attempt}
        self.emit("jackstay.connection.transition", **fields)

    def report_violation(self, effect: e.Violation) -> None:
        """Log and emit a violation of the protocol."""
        self._violations += 1
        message = "%s: protocol violation: %s (frame of %d bytes; %d so far)"
        logger.log(_level(self._violations), message, self.client, effect.reason, effect.size, self._violations)
        self.emit("jackstay.protocol.violation", reason=effect.reason, frame_size=effect.size)

    def report_stray(self, effect: e.Stray) -> None:
        """Log and emit a response that belongs to no open request.

        One to a cancelled call may be late. An id that no request has is a defect of the server: a caller waits until
        its deadline, and this is the only hint at the cause.
        """
        message = "%s: ignored a response that belongs to no open request: id %s%s (%d so far)"
        error, count = effect.error, effect.count
        what = "" if error is None else f", error {error.code}: {error.message[:MAX_QUOTE]!a}"
        level = _level(count) if effect.kind == "unknown" else logging.DEBUG
        logger.log(level, message, self.client, repr(effect.id)[:MAX_QUOTE], what, count)
        self.emit(f"jackstay.response.{effect.kind}", count=count)

    def emit_exit(self, code: int | None) -> None:
        """Emit the exit of a child process."""
        if code is not None:
            self.emit("jackstay.child.exit", code=max(code, 0), signal=max(-code, 0))

    def emit(self, name: str, **fields: object) -> None:
        """Call every listener. An exception of a listener is logged once; the listener stays registered."""
        event = {"client": self.client, **fields}
        for listener in self.listeners:
            try:
                listener(name, event)
            except Exception:  # user code
                if listener not in self._logged:
                    self._logged.append(listener)
                    logger.exception(
                        "a telemetry listener raised an exception; further exceptions of it are not logged"
                    )


# --- the adapter for `logging` ----------------------------------------------------------------------------------------

# The level of each event; the default is DEBUG.
LEVELS = {
    "jackstay.connection.transition": logging.INFO,
    "jackstay.request.exception": logging.WARNING,
    "jackstay.protocol.violation": logging.WARNING,
}


def log_events(logger: logging.Logger | None = None) -> Listener:
    """Return a listener for `client.on_event()` that logs every event; the default logger is `jackstay.telemetry`.

    A line is `NAME key=value ...`. The record also has the fields as the attribute `jackstay`, for formatters.
    """
    target = logging.getLogger("jackstay.telemetry") if logger is None else logger

    def listen(name: str, fields: Fields) -> None:
        level = LEVELS.get(name, logging.DEBUG)
        if target.isEnabledFor(level):
            pairs = " ".join(f"{key}={value}" for key, value in fields.items())
            target.log(level, "%s %s", name, pairs, extra={"jackstay": {"event": name, **fields}})

    return listen


def _level(count: int) -> int:
    """Return the level of the record of an event that happened `count` times."""
    return logging.WARNING if count <= MAX_VIOLATION_WARNINGS or count.bit_count() == 1 else logging.DEBUG
