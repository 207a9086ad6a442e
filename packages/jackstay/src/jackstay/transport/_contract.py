"""The transport contract: the protocols `Target`, `Transport` and `TransportHandler`.

A target makes transports (from a command, a URL, one end of an in-memory pair). A transport is one connection. Its
handler, the client's or the server's driver, is notified of what happens and pulls the frames that arrived.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jackstay.errors import McpError

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader


class TransportHandler(Protocol):
    """Callbacks of a transport. Each is called on the loop's thread and must not raise."""

    def frames_arrived(self) -> None:
        """At least one frame, or an error in the received data, can be pulled with `next_frame()`."""

    def wrote(self, through: int) -> None:
        """Frames with numbers up to this one were passed to the operating system.

        Called once per write, not per frame.
        """

    def room_made(self) -> None:
        """There is room again after `send()` returned False."""

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """The transport ended. `was_silent`: the peer never sent a byte. The handler calls `close()` next."""


@runtime_checkable
class ExchangeHandler(TransportHandler, Protocol):
    """The handler of a transport that sends each request on its own (HTTP), so that each can fail on its own."""

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """This request will get no response. `was_declined`: the server rejected it, but not with a JSON-RPC error."""

    def queued(self, id: int) -> None:
        """This request waits for a free connection; nothing of it was sent. Called inside `send()`."""

    def started(self, id: int) -> None:
        """This request has left the queue and may run. Called before its first byte is written."""

    def session_lost(self, id: int) -> None:
        """The server dropped the session and rejected this request (0: no call's). The driver calls `renew()` next."""

    def header_params(self, tool: str) -> "Sequence[ParamHeader]":
        """Return the arguments of this tool that are repeated in headers, as declared in the server's tool list."""


class Transport(Protocol):
    """One connection. `number` in these calls is the driver's own, increasing count of frames.

    All calls are made on the event loop's thread. None blocks; only `flush()` and `close()` wait.
    `jackstay.testing.transport_suite` checks the following for any implementation:

    1. **Sending.** `send()` accepts a whole frame or nothing. It rejects a frame (busy) if `MAX_QUEUED_FRAMES` are
       queued, or if the queue is not empty and the frame would take it over `MAX_QUEUED_BYTES`; an empty queue accepts
       any legal frame. A frame is *written* when its first byte is passed to the operating system (or to asyncio's
       buffer, which is filled only while it is empty). Until then `withdraw()` removes it, and it is not sent.
       After a rejection, `room_made` is called once there is room, whether by writing or by withdrawing, and never from
       inside a call by the handler. `flush()` waits until the last byte is written: then it is safe to close. A
       transport may also have `send_all(frames, number)`, which sends frames with consecutive numbers, the first with
       this one, and returns how many of them it accepted; a server passes the responses to one read to it.
    2. **Receiving.** `frames_arrived` is called when at least one complete frame or an error can be pulled; the handler
       calls `next_frame()` until it returns None. Received frames are delivered even if the peer has disconnected.
    3. **Closing.** `stop_writing()` takes effect before it returns: no further byte is written, so no frame that was
       not begun is sent. A driver that reports a call as "not sent" calls it in the same iteration of the event loop.
       `close()` includes it, ends everything that the transport started, in bounded time, and returns when nothing is
       left. Both may be called at any time and more than once; `close()` also while another task is in `open()`, which
       then fails, or whose result is closed.
    4. **Disconnection.** `went_down` is called exactly once if the transport ends without `close()`, after everything
       readable was delivered. It is never called after `close()`.
    """

    def send(self, frame: bytes, number: int) -> bool:
        """Accept the whole frame and return True, or return False: busy, or no longer open."""

    def withdraw(self, number: int) -> bool:
        """Remove a frame that is not written yet. False: it is written, or unknown."""

    def next_frame(self) -> bytes | McpError | None:
        """Return the next frame, or the error in its place (then call again), or None until `frames_arrived`."""

    async def flush(self) -> bool:
        """Wait until the last byte of every accepted frame is written, and any due `room_made` was called.

        Returns False if the transport is down or was closed. There is no time limit: the peer may not read. Cancelling
        the caller withdraws nothing.
        """

    def stop_writing(self) -> None:
        """Permanently stop writing. Does not wait, and never raises.

        Frames that were not begun are dropped. From now on `send()`, `withdraw()` and `flush()` return False, and
        `wrote` and `room_made` are not called.
        """

    async def close(self) -> None:
        """Stop writing, and end the connection and everything it started.

        Returns in bounded time, when nothing is left.
        """


@runtime_checkable
class ExchangeTransport(Transport, Protocol):
    """A transport that sends each request on its own (HTTP)."""

    def abort(self, id: int) -> None:
        """Close the response of this request, at whatever stage it is. The server sees a closed connection."""

    def renew(self, handler: ExchangeHandler) -> None:
        """Begin a new session over the same connections, with this handler.

        Open requests continue. Callbacks about their session go to the handler under which they were sent.
        """


class Target(Protocol):
    """A factory of transports, as `connect()` accepts it."""

    @property
    def name(self) -> str:
        """The name in logs and telemetry."""

    @property
    def is_http(self) -> bool:
        """Whether each request is sent on its own instead of in one stream."""

    @property
    def init_timeout(self) -> float | None:
        """The default of the setting `init_timeout` for this target, in seconds; None: the general default."""

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """Return a transport that is ready to send.

        Raises: TransportError, `permanent` if a retry cannot help.
        """
