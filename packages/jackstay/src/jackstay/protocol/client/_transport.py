"""The transport of the current epoch: whether it is open, and what was received from it before the first message."""

from enum import Enum, unique

import msgspec

from jackstay.errors import McpError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._settings import NON_MCP_OUTPUT_SHARE


@unique
class TransportStatus(Enum):
    """The status of the transport. It changes independently of the connection's state only in `backoff`."""

    NONE = "none"
    OPEN = "open"  # or being opened
    KEPT = "kept"  # HTTP: the session is lost, the HTTP client and its open requests are kept
    CLOSING = "closing"


class TransportLink(msgspec.Struct):
    """The transport of the current epoch."""

    calls: Calls
    status: TransportStatus = TransportStatus.NONE
    # A valid message was received from it.
    has_received_message: bool = False
    # Invalid frames in a row, and the newest one.
    invalid_frames: int = 0
    last_line: str = ""
    # The connect deadline of this start, while an earlier one is armed because the server prints other output.
    connect_deadline: float | None = None

    def close(self, epoch: int) -> None:
        """Close it, unless it is closed or being closed."""
        if self.status in (TransportStatus.OPEN, TransportStatus.KEPT):
            self.status = TransportStatus.CLOSING
            self.calls.timers.arm(e.CloseExpired, self.calls.now + self.calls.settings.close_timeout)
            self.calls.out.append(e.Close(epoch))

    def ended(self) -> None:
        """Record that nothing is left of it."""
        self.status = TransportStatus.NONE
        self.calls.timers.disarm(e.CloseExpired)

    def message_received(self) -> None:
        """Record a valid message."""
        self.invalid_frames = 0
        if not self.has_received_message:
            self.has_received_message = True
            if self.connect_deadline is not None and e.ConnectExpired in self.calls.timers:
                self.calls.timers.arm(e.ConnectExpired, self.connect_deadline)

    def invalid_frame_received(self, error: McpError, *, is_first_start: bool) -> str:
        """Record a frame that is not a message. Returns a hint for the user."""
        self.invalid_frames += 1
        self.last_line = getattr(error, "quote", "")
        if is_first_start and not self.has_received_message:
            self._shorten_connect_deadline()
        if self.calls.is_http or self.last_line.lstrip()[:1] in ("", "{", "["):
            return ""
        return ": the server prints to its standard output, which is reserved for MCP messages"

    def _shorten_connect_deadline(self) -> None:
        """Shorten the connect deadline: a program that prints other output is probably not an MCP server."""
        settings, timers = self.calls.settings, self.calls.timers
        at = timers.at(e.ConnectExpired)
        soon = self.calls.now + settings.init_timeout * NON_MCP_OUTPUT_SHARE
        if settings.max_attempts in (None, 1) and at is not None and soon < at:
            self.connect_deadline = at
            timers.arm(e.ConnectExpired, soon)

    @property
    def non_mcp_output(self) -> str:
        """An error message if the server sent other output but no MCP message, else an empty string."""
        if self.has_received_message or not self.invalid_frames:
            return ""
        if self.calls.is_http:
            return f"the server sent {self.last_line!r} and no MCP message; is this an MCP server?"
        return (
            f"the program printed {self.last_line!r} to its standard output and sent no MCP message;"
            " is this an MCP server?"
        )

    @property
    def silence(self) -> str:
        """An error message if nothing was received from the server, else an empty string."""
        return "" if self.has_received_message else "nothing was received from the server"

    def ended_without_message(self, event: e.WentDown) -> bool:
        """Return True if the program ended without an MCP message."""
        return event.was_silent or not self.has_received_message
