"""`Call`: one request in flight, as its caller sees it.

The connection completes it. The result is decoded at once, because it is a view of a frame that does not outlive it.
"""

import asyncio
import random
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from jackstay.client._telemetry import Telemetry
from jackstay.errors import McpError, ProtocolError

R = TypeVar("R")


class Call(msgspec.Struct, Generic[R], eq=False):
    """One request in flight: await it, or call `cancel()`.

    `id` is the id of the JSON-RPC request. It changes if the request is sent again after a reconnect, and is 0 if the
    request was never accepted.
    """

    future: "asyncio.Future[R]"
    method: str
    _read: Callable[[msgspec.Raw], R]
    # When it was submitted, as the time of the event loop.
    made_at: float
    options: Mapping[str, Any] = {}
    id: int = 0
    # After a cancellation: False if the request was certainly not written.
    may_have_run: bool = True
    # When the newest progress notification arrived; it extends the soft deadline.
    progress_at: float | None = None
    corr_id: str = ""
    started_at: int = 0
    started_ns: int = 0

    def __repr__(self) -> str:
        return f"<Call {self.id} {self.method} {'done' if self.future.done() else 'open'}>"

    def __await__(self) -> Generator[Any, None, R]:
        return self.future.__await__()

    def cancel(self) -> bool:
        """Cancel the call. If the request was written, the server gets one `notifications/cancelled`.

        Returns False if the call had already ended.
        """
        return self.future.cancel()

    @property
    def accepts_progress(self) -> bool:
        """True while the call is open or has succeeded: the last progress notification may follow the result."""
        return not self.future.cancelled() and self.retrieve_exception() is None

    def retrieve_exception(self) -> BaseException | None:
        """Return the exception of a failed call, or None. Marks it as retrieved, so that asyncio logs no warning."""
        future = self.future
        return future.exception() if future.done() and not future.cancelled() else None

    def complete(self, result: msgspec.Raw) -> None:
        """Decode the result now, while its frame is valid, and resolve the future."""
        future, read = self.future, self._read
        if future.done():
            return  # cancelled while the response was on its way
        try:
            value = read(result)
        except McpError as error:
            error.may_have_run = True  # the server responded, but the result is invalid
            if isinstance(error, ProtocolError) and error.path:
                error.message = f"the server sent an invalid result: {error.message}"
            future.set_exception(error.about(self.method, self.id))
        else:
            future.set_result(value)

    def fail(self, error: McpError) -> None:
        """Fail the call with `error`, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(error)

    def emit_start(self, telemetry: Telemetry, rng: random.Random) -> None:
        """Emit `jackstay.request.start` with a new correlation id."""
        self.corr_id = rng.randbytes(8).hex()
        self.started_at, self.started_ns = time.monotonic_ns(), time.time_ns()
        telemetry.emit("jackstay.request.start", **self._fields())

    def emit_end(self, telemetry: Telemetry, name: str, **extra: object) -> None:
        """Emit the end event `name`, if the start was emitted."""
        if self.corr_id:
            duration = time.monotonic_ns() - self.started_at
            telemetry.emit(name, **self._fields(), duration_ns=duration, **extra)

    def _fields(self) -> dict[str, object]:
        return {"method": self.method, "id": self.id, "corr_id": self.corr_id, "system_time_ns": self.started_ns}
