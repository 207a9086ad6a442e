"""Failures: their causes, the delay before the next attempt, and when to stop trying."""

import msgspec

from jackstay.errors import (
    ClosedError,
    McpError,
    ProtocolError,
    ResetError,
    SessionLostError,
    ShutdownError,
    TransportError,
)
from jackstay.protocol.client import events as e
from jackstay.protocol.client._backoff import backoff_delay
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._settings import KEEPALIVE_MISSES, MAX_ATTEMPTS
from jackstay.protocol.client._transport import TransportLink

SESSIONS_NOT_KEPT = (
    "the server does not keep sessions: it responded with HTTP 404 for a session that it has just created. This happens"
    " with several workers that share no session store: use sticky sessions, a shared store, or a stateless server"
)


class Recovery(msgspec.Struct):
    """What is known of failures, of this transport and of earlier ones."""

    calls: Calls
    # The newest failure. Every cell that leads to the end records why.
    cause: McpError | None = None
    # Failures in a row; a result or a stable connection ends the row.
    failures: int = 0
    # The exit code of the last process, if it exited without a message.
    last_exit: int | None = None
    # Starts since the last ready that timed out.
    slow_starts: int = 0
    # When the newest session was created with an HTTP client that was kept.
    session_renewed_at: float | None = None
    has_warned: bool = False

    def record(self, event: e.Event, transport: TransportLink, check_method: str) -> None:
        """Record the cause of a failure."""
        self.last_exit = None
        if isinstance(event, e.WentDown) and transport.ended_without_message(event):
            self.last_exit = None if event.code is None or event.code < 0 else event.code
        self.cause = self.cause_of(event, transport, check_method)
        if isinstance(event, e.ConnectExpired) and isinstance(self.cause, TransportError):
            self.slow_starts += 1

    def cause_of(self, event: e.Event, transport: TransportLink, check_method: str) -> McpError:
        """Return the error of an event that ends a connection."""
        error = getattr(event, "error", None)
        output = transport.non_mcp_output
        if isinstance(event, e.WentDown) and isinstance(error, TransportError):
            # Programs that fail exit with another code, or print why.
            if event.was_silent and (event.code == 0 or error.absent):
                output = "it sent no MCP message; is this an MCP server?"
            if output:
                return TransportError(
                    f"{error.message}; {output}", exit_code=error.exit_code, stderr_tail=error.stderr_tail
                )
        if isinstance(error, McpError):
            return error
        match event:
            case e.StopRequested():
                return ShutdownError()
            case e.ResetReceived():
                return ResetError()
            case e.SessionLost():
                return SessionLostError("the server does not keep sessions")
            case e.InitializeReceived():
                return ProtocolError("the server sent initialize, which only a client may send")
            case e.KeepaliveMissed():
                return TransportError(f"no response to {KEEPALIVE_MISSES} keepalives")
            case e.CheckExpired():
                return TransportError(f"the server hangs: it responded neither to a call nor to {check_method}")
            case _:
                if output:
                    return ProtocolError(output)
                silence = f": {transport.silence}" if transport.silence else ""
                limit = self.calls.settings.start_timeout(self.slow_starts)
                return TransportError(f"not ready within {limit:g} s{silence}")

    def start_backoff(self, *, is_reset: bool = False) -> None:
        """Count a failure and delay the next attempt; after a reset by the server as little as possible.

        `Retry-After` of the response (RFC 9110, 10.2.3) makes the delay longer, up to `backoff_max`.
        """
        settings = self.calls.settings
        delay = settings.backoff_min if is_reset else backoff_delay(settings, self.failures, self.calls.jitter)
        if self.cause is not None and self.cause.retry_in is not None:
            delay = max(delay, min(self.cause.retry_in, settings.backoff_max))
        self.failures += 1
        self.calls.timers.arm(e.BackoffElapsed, self.calls.now + delay)

    def is_exhausted(self) -> bool:
        """Return True if a server that was never ready has failed too often."""
        limit = self.calls.settings.max_attempts
        if limit is None:
            is_absent = isinstance(self.cause, ProtocolError) or getattr(self.cause, "absent", False)
            limit = 1 if is_absent else MAX_ATTEMPTS
        if self.failures < limit:
            return False
        if self.cause is not None:
            self.cause.details["attempts"] = self.failures
        return True

    def ended_error(self, *, is_closing: bool) -> McpError:
        """Return the error of a call that is made after the end."""
        reason = self.cause or ShutdownError()
        return ShutdownError() if is_closing and isinstance(reason, ShutdownError) else ClosedError(reason)
