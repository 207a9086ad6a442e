"""The handler of transport callbacks: turns each into an event of the core, tagged with the epoch of the transport.

The epoch keeps a late callback of an old transport or session from affecting a new one.
"""

import sys
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import McpError
from jackstay.protocol.client import events as e
from jackstay.transport import Transport

if TYPE_CHECKING:
    from jackstay.client._driver import Driver
    from jackstay.protocol.http import ParamHeader

# The number of frames handled before other tasks and connections of the loop run. A pipe holds 64 KiB, which may be a
# thousand messages: handled at once, a server that sends without pause would delay all others, for example behind a
# gateway. Frames that are not pulled stay in the transport, which stops reading when it has enough. And the callers of
# these responses send their next requests before the others are completed, so that the server works meanwhile.
MAX_FRAMES_AT_ONCE = 32


class EpochHandler(msgspec.Struct, eq=False):
    """A `TransportHandler` for one epoch: passes every callback to the connection as an event of that epoch."""

    connection: "Driver"
    epoch: int
    transport: Transport | None = None

    def frames_arrived(self) -> None:
        """See `ExchangeHandler`."""
        if self.transport is not None:
            self.connection.pull(self.transport, self.epoch)

    def wrote(self, through: int) -> None:
        """See `ExchangeHandler`."""
        self.connection.core.wrote(self.epoch, through)

    def room_made(self) -> None:
        """See `ExchangeHandler`."""
        self.connection.step(e.BecameWritable(self.epoch))

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """See `ExchangeHandler`."""
        try:
            if self.transport is not None:
                self.connection.pull(self.transport, self.epoch, sys.maxsize)  # what arrived before the end counts
        finally:  # a listener may raise KeyboardInterrupt
            self.connection.telemetry.emit_exit(exit_code)
            self.connection.step(e.WentDown(self.epoch, error, exit_code, was_silent))

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """See `ExchangeHandler`."""
        self.connection.step(e.ExchangeLost(self.epoch, id, error, was_declined))

    def queued(self, id: int) -> None:
        """See `ExchangeHandler`."""
        self.connection.step(e.PostQueued(self.epoch, id))

    def started(self, id: int) -> None:
        """See `ExchangeHandler`."""
        self.connection.step(e.PostStarted(self.epoch, id))

    def session_lost(self, id: int) -> None:
        """See `ExchangeHandler`."""
        self.connection.step(e.SessionLost(self.epoch, id))

    def header_params(self, tool: str) -> "tuple[ParamHeader, ...]":
        """See `ExchangeHandler`."""
        return self.connection.header_params.get(tool, ())
