"""Cuts received bytes into frames, which are pulled one at a time.

The frames of one read are cut at once; the rest stays as bytes. If the handler stops pulling and enough is buffered,
reading stops.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError
from jackstay.protocol.wire import LineFramer

if TYPE_CHECKING:
    from jackstay.protocol.wire import ContentLengthFramer

# Reading stops when this much is buffered. Four times the capacity of a pipe, so that a handler which pulls in a task
# of its own, one iteration of the event loop later, does not stop it.
FULL_BYTES: Final = 262_144


class FrameReader:
    """Receives bytes by `feed()` and returns frames from `next_frame()`.

    `on_frames` is called when there is something to pull and there was nothing before. `on_drained` is called when a
    reader that was full has been emptied. `on_lost` is called once, if the stream can no longer be cut into frames.
    """

    def __init__(
        self,
        framer: "LineFramer | ContentLengthFramer",
        on_frames: Callable[[], None],
        on_drained: Callable[[], None],
        on_lost: Callable[[ProtocolError], None],
    ) -> None:
        self.framer = framer
        self._on_frames = on_frames
        self._on_drained = on_drained
        self._on_lost = on_lost
        self._cut: list[bytes | McpError] = []  # not yet pulled, last first
        self.is_notified = False  # `on_frames` was called, and not everything was pulled since
        self._has_ended = False
        self._was_full = False
        self.is_lost = False
        self.was_silent = True  # nothing was ever fed

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if data:
            self.was_silent = False
            self.framer.feed(data)
        if not self.is_notified and self._cut_more():
            self.is_notified = True
            self._on_frames()

    def end(self) -> None:
        """The stream has ended. A last line without a newline is delivered: it may be a complete message."""
        self._has_ended = True
        self.feed(b"")

    def close(self) -> None:
        """Drop everything that was not pulled: from now on nothing is returned."""
        self._cut.clear()
        self.is_lost = True

    def is_full(self) -> bool:
        """Whether to stop reading, until `on_drained` is called."""
        if self.is_notified and self.framer.buffered > FULL_BYTES:
            self._was_full = True
        return self._was_full

    def next_frame(self) -> bytes | McpError | None:
        """See `Transport.next_frame`."""
        if self._cut or self._cut_more():
            return self._cut.pop()
        self.is_notified = False
        if self._was_full:
            self._was_full = False
            self._on_drained()
        return None

    def _cut_more(self) -> bool:
        """Cut the next frames, or put an error in their place. Returns False if there are none."""
        if self.is_lost:
            return False
        cut = self._cut
        try:
            cut += self.framer.next_frames()
            if not cut and self._has_ended:
                cut += self._tail()
        except FrameTooLargeError as error:
            cut.append(error)
        except ProtocolError as error:
            self.is_lost = True
            cut.append(error)
            self._on_lost(error)
        return bool(cut)

    def _tail(self) -> list[bytes | McpError]:
        unfinished = self.framer.eof()
        if unfinished is None:
            return []
        if isinstance(self.framer, LineFramer):
            # Some servers omit the newline after their last message. An incomplete message is delivered, too: only the
            # JSON parser can distinguish the two, and it rejects the incomplete one.
            return [unfinished.data] if unfinished.data else []
        expected = "" if unfinished.expected is None else f" of {unfinished.expected}"
        return [ProtocolError(f"the stream ended inside a frame, after {unfinished.received}{expected} bytes")]
