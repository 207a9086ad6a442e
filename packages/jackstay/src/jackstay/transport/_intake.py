"""What was received and not yet pulled: bytes go in as they come, frames are pulled one at a time.

Between the two stands a framer. One frame at most is cut ahead, to know whether there is something to tell the owner of;
the rest stays bytes until the owner has handled what came before (docs/design/connection.md, row 16). An owner that stops pulling
stops the reading, once enough lies here; one that pulls never does.

Must never know what a frame says, nor where bytes come from. Above: the transports. Below: the framings of `protocol`.
"""

from collections.abc import Callable
from typing import Final

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol.wire import FRAMINGS

# With so much unpulled, the owner is behind and reading stops: four pipes full, so that an owner which pulls in a
# task of its own, a turn of the loop later, is not mistaken for one that has stopped.
FULL_BYTES: Final = 262_144


class Intake:
    """Feed it, end it, pull from it.

    `arrived` is called when there is something to pull after a time when there was not. `drained` is called when an
    intake that was full has been emptied. `lost` is called once, if what came cannot be cut into frames any more.
    """

    __slots__ = (
        "_arrived",
        "_drained",
        "_framer",
        "_has_ended",
        "_is_told",
        "_keeps_tail",
        "_lost",
        "_next",
        "_was_full",
        "is_lost",
        "was_silent",
    )

    def __init__(
        self,
        framing: str,
        limit: int,
        arrived: Callable[[], None],
        drained: Callable[[], None],
        lost: Callable[[ProtocolError], None],
    ) -> None:
        self._framer = FRAMINGS[framing].reader(limit)
        self._keeps_tail = framing == "lines"
        self._arrived = arrived
        self._drained = drained
        self._lost = lost
        self._next: bytes | McpError | None = None  # cut ahead
        self._is_told = False
        self._has_ended = False
        self._was_full = False
        self.is_lost = False
        self.was_silent = True  # nothing was ever fed

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} of {self._framer!r}{', ended' if self._has_ended else ''}>"

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self.was_silent = False
        self._framer.feed(data)
        self._look()

    def end(self) -> None:
        """Nothing more will come. A last line without its end is delivered: it may well be a whole message."""
        self._has_ended = True
        self._look()

    def is_full(self) -> bool:
        """Whether to stop reading, until `drained` is called."""
        if self._is_told and self._framer.buffered > FULL_BYTES:
            self._was_full = True
        return self._was_full

    def next_frame(self) -> bytes | McpError | None:
        """As the contract's `next_frame`."""
        found = self._next
        if found is not None:
            self._next = None
            return found
        found = self._cut()
        if found is None:
            self._is_told = False
            if self._was_full:
                self._was_full = False
                self._drained()
        return found

    def _look(self) -> None:
        if self._is_told:
            return
        self._next = self._cut()
        if self._next is not None:
            self._is_told = True
            self._arrived()

    def _cut(self) -> bytes | McpError | None:
        if self.is_lost:
            return None
        try:
            frame = self._framer.next_frame()
        except FrameTooLargeError as error:
            return error
        except ProtocolError as error:
            self.is_lost = True
            self._lost(error)
            return error
        return self._tail() if frame is None and self._has_ended else frame

    def _tail(self) -> bytes | McpError | None:
        unfinished = self._framer.eof()
        if unfinished is None:
            return None
        if self._keeps_tail:
            # A newline is missing at the end of what some servers say last. Half a message is delivered, too: only who
            # reads JSON can tell the two apart, and half a message is no JSON.
            return unfinished.data or None
        expected = "" if unfinished.expected is None else f" of {unfinished.expected}"
        return ProtocolError(f"the stream ended inside a frame, after {unfinished.received}{expected} bytes")
