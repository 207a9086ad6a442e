"""What a transport promises, and what its owner must give it: the whole contract between moving bytes and meaning.

A *target* says how to make transports (a command to run, a URL, one end of a pipe in memory). A *transport* is one
connection made from it; it moves whole frames and knows nothing of what they say. Its *owner* (the driver of a client
or a server) is told what happens and pulls what arrived. Everything here runs on the event loop's thread; no call
blocks, and only `open()`, `flush()` and `close()` wait.

The four duties, which `jackstay.testing.transport_suite` checks for any implementation:

1. **Send a frame or say busy.** `send()` takes all of a frame or nothing. Busy: the queue holds `MAX_QUEUED_FRAMES`, or is not
   empty and the frame would take it over `MAX_QUEUED_BYTES`; an empty queue takes any legal frame. A frame is *written* when
   its first byte is given to the operating system (or to asyncio's buffer, which is fed only while it is empty); until then
   `withdraw()` takes it back and it is surely not sent. After being busy, `room_made` is called once there is room, whether by
   writing or by withdrawing; never from inside a call of the owner's. *Begun*
   is not *finished*: `flush()` waits for the last byte, which is how an owner knows that it may close.
2. **Deliver frames when pulled.** `frames_arrived` is called when at least one complete frame or fault is there; the owner
   pulls with `next_frame()` until None. Nothing that was received is lost because the peer went away after sending it.
3. **Close, in two halves.** `stop_writing()` takes effect before it returns: no further byte is written, so every frame that
   was not begun is surely not sent. An owner that reports a call as "not sent" calls it in the same turn of the event loop.
   `close()` is the other half, and includes the first: it ends everything the transport started, in bounded steps, and
   returns when nothing of it is left. Both may be called at any time and more than once; `close()` also while `open()` is
   under way in another task (`open()` then fails or is closed).
4. **Report down.** `went_down` is called exactly once when the transport ends by itself, after everything readable was
   delivered; never after `close()` was called.

Above: the drivers in the client's and the server's rooms, and everybody who writes a transport. Below: `jackstay.errors`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from jackstay.errors import McpError

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

# The design's definition of busy (connection row 14).
MAX_QUEUED_FRAMES: Final = 1024
MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024


class Owner(Protocol):
    """Who is told what happens to a transport. Each is called on the loop's thread and must not raise."""

    def frames_arrived(self) -> None:
        """At least one frame, or a fault in what was received, can be pulled with `next_frame()`."""

    def wrote(self, through: int) -> None:
        """Frames with numbers up to this one are with the operating system. Told at most once a write, not a frame."""

    def room_made(self) -> None:
        """There is room again after `send()` said busy."""

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """The transport ended. `was_silent`: the peer never sent a byte. Next: `close()`."""


@runtime_checkable
class ExchangeOwner(Owner, Protocol):
    """The owner of a transport whose requests travel one by one (HTTP): each can fail alone."""

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """This request has no answer and gets none. `was_declined`: the server refused it, and not in JSON-RPC."""

    def queued(self, id: int) -> None:
        """This request, just taken by `send()`, waits for a free connection: nothing of it was sent. Called in `send()`."""

    def started(self, id: int) -> None:
        """This request waited, and is being sent from now on: it may run. Called before its first byte is written."""

    def session_lost(self, id: int) -> None:
        """The server forgot the session and refused this request; 0: one that was not a call's. Next: `renew()`."""

    def marked_arguments(self, tool: str) -> "Sequence[ParamHeader]":
        """Which arguments of this tool are to be said in headers, too, by the list that the server gave."""


class Transport(Protocol):
    """One connection. `number` in these calls is the owner's own count of frames; it only grows."""

    def send(self, frame: bytes, number: int) -> bool:
        """Take the frame and return True, or take nothing of it and return False: busy, or no longer open."""

    def withdraw(self, number: int) -> bool:
        """Take a frame back that is not written yet. False: it is written, or was never here."""

    def next_frame(self) -> bytes | McpError | None:
        """The next frame; or what was wrong with it (then go on pulling); or None until `frames_arrived`."""

    async def flush(self) -> bool:
        """Wait until the last byte of every frame taken is with the operating system, and who was refused was told of room.

        False: it never will be, because the transport is down or was closed. There is no limit to the wait: the peer may
        not read. A caller that is cancelled takes nothing back.
        """

    def stop_writing(self) -> None:
        """Write nothing more, from now on and for good. Does not wait, and never raises.

        Frames that were not begun are dropped. `send()`, `withdraw()` and `flush()` return False from now on, and the owner
        gets no further `wrote` or `room_made`.
        """

    async def close(self) -> None:
        """Stop writing, and end it and everything it started; returns when nothing is left, within bounded steps."""


@runtime_checkable
class ExchangeTransport(Transport, Protocol):
    """A transport whose requests travel one by one (HTTP)."""

    def hang_up(self, id: int) -> None:
        """Close the response of this request, wherever it stands: nobody waits for it, and that is how the server learns."""

    def renew(self, owner: ExchangeOwner) -> None:
        """Begin a new session over the same connections, and report to this owner. Open requests go on as they are;
        what is still to be said of their session is told to the owner they were sent under.
        """


class Target(Protocol):
    """How to make transports: what `connect()` takes."""

    @property
    def name(self) -> str:
        """What logs and telemetry call it."""

    @property
    def is_http(self) -> bool:
        """Whether requests travel one by one instead of in one stream."""

    @property
    def init_timeout(self) -> float | None:
        """How long a start may take, where the settings do not say; None: as long as any other."""

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """Make a transport that is ready to send.

        Raises: TransportError, `permanent` where trying again cannot help.
        """
