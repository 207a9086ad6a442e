"""One call under way: what its caller holds, and where its outcome arrives.

It reads its result itself, at once, because the result is a view of a frame that is gone with the next one. It decides
nothing: the connection says when it is done, and how.

Above: `_connection`, which completes it; users, who got it from `submit()`. Below: `_telemetry`.
"""

import asyncio
import random
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

from jackstay.client._telemetry import Telemetry
from jackstay.errors import McpError
from jackstay.types import ProgressNotificationParams

R = TypeVar("R")


class Call(Generic[R]):
    """One call under way: await it, or give it up with `cancel()`.

    `id` is the id of its request; it changes if the call is sent again after a loss. 0: it was never accepted.
    """

    __slots__ = (
        "_read",
        "corr_id",
        "future",
        "id",
        "may_have_run",
        "method",
        "on_progress",
        "progress_at",
        "started_at",
        "started_ns",
    )

    def __init__(
        self,
        future: "asyncio.Future[R]",
        method: str,
        read: Callable[[msgspec.Raw], R],
        on_progress: Callable[[ProgressNotificationParams], object] | None,
    ) -> None:
        self.future = future
        self.method = method
        self.id = 0
        # Of a call that was cancelled: False once it is known that nothing of it was written.
        self.may_have_run = True
        self.on_progress = on_progress
        # When the newest report of progress arrived, which moved the soft deadline.
        self.progress_at: float | None = None
        self._read = read
        self.corr_id = ""
        self.started_at = 0
        self.started_ns = 0

    def __repr__(self) -> str:
        return f"<Call {self.id} {self.method} {'done' if self.future.done() else 'open'}>"

    def __await__(self) -> Generator[Any, None, R]:
        return self.future.__await__()

    def cancel(self) -> bool:
        """Give it up: if it was written, the server is told, once. False: it had ended before."""
        return self.future.cancel()

    @property
    def is_heard(self) -> bool:
        """True while its progress is of interest: it is open, or ended well (the last report may come after the answer)."""
        future = self.future
        return not future.done() or not (future.cancelled() or future.exception() is not None)

    def see(self) -> BaseException | None:
        """What it failed with, if it did. From now on asyncio does not complain that nobody asked."""
        future = self.future
        return future.exception() if future.done() and not future.cancelled() else None

    def complete(self, result: msgspec.Raw) -> None:
        """Read the result now, while its frame is there, and give it to whoever awaits."""
        if self.future.done():
            return  # given up a moment ago, and the answer was on its way
        try:
            value = self._read(result)
        except McpError as error:
            error.may_have_run = True  # it was answered: with something that cannot be read
            self.future.set_exception(error.about(self.method, self.id))
        else:
            self.future.set_result(value)

    def fail(self, error: McpError) -> None:
        """End it with this error."""
        if not self.future.done():
            self.future.set_exception(error)

    def emit_start(self, telemetry: Telemetry, rng: random.Random) -> None:
        """Emit the start of this call, with a new correlation id."""
        self.corr_id = rng.randbytes(8).hex()
        self.started_at, self.started_ns = time.monotonic_ns(), time.time_ns()
        telemetry.tell("jackstay.request.start", **self._facts())

    def emit_end(self, telemetry: Telemetry, name: str, **more: object) -> None:
        """Emit the end of this call, if its start was emitted."""
        if self.corr_id:
            duration = time.monotonic_ns() - self.started_at
            telemetry.tell(name, **self._facts(), duration_ns=duration, **more)

    def _facts(self) -> dict[str, object]:
        return {
            "method": self.method,
            "id": self.id,
            "corr_id": self.corr_id,
            "system_time_ns": self.started_ns,
        }
