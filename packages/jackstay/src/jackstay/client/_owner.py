"""Who a transport reports to: what it tells becomes an event of the core, with the epoch it belongs to.

The epoch is what keeps an old transport, or an old session, from touching a new one; it is set here once, and nowhere
else. Nothing is decided.

Above: `_connection`, which makes one for each epoch. Below: `jackstay.transport` (the contract), `jackstay.protocol` (events).
"""

from typing import TYPE_CHECKING

from jackstay.errors import McpError
from jackstay.protocol.client import events as e
from jackstay.transport import Transport

if TYPE_CHECKING:
    from jackstay.client._connection import Connection
    from jackstay.protocol.http import ParamHeader


class Owner:
    """Who a transport of one epoch reports to: the connection, with that epoch on every event."""

    __slots__ = ("connection", "epoch", "transport")

    def __init__(self, connection: "Connection", epoch: int) -> None:
        self.connection = connection
        self.epoch = epoch
        self.transport: Transport | None = None

    def frames_arrived(self) -> None:
        """As the contract says."""
        if self.transport is not None:
            self.connection.pull(self.transport, self.epoch)

    def wrote(self, through: int) -> None:
        """As the contract says."""
        self.connection.step(e.Wrote(self.epoch, through))

    def room_made(self) -> None:
        """As the contract says."""
        self.connection.step(e.RoomMade(self.epoch))

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """As the contract says."""
        self.connection.tell_exit(exit_code)
        self.connection.step(e.WentDown(self.epoch, error, exit_code, was_silent))

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """As the contract says."""
        self.connection.step(e.ExchangeLost(self.epoch, id, error, was_declined))

    def queued(self, id: int) -> None:
        """As the contract says."""
        self.connection.step(e.PostQueued(self.epoch, id))

    def started(self, id: int) -> None:
        """As the contract says."""
        self.connection.step(e.PostStarted(self.epoch, id))

    def session_lost(self, id: int) -> None:
        """As the contract says."""
        self.connection.step(e.SessionLost(self.epoch, id))

    def marked_arguments(self, tool: str) -> "tuple[ParamHeader, ...]":
        """As the contract says."""
        return self.connection.marked_arguments.get(tool, ())
