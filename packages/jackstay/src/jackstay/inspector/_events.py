"""The events of an inspected server, numbered and kept, so that a page that is reloaded shows them again."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from jackstay.errors import McpError

# The size of the kept events; the oldest are dropped above it.
MAX_KEPT_BYTES: Final = 33_554_432

# How many of the newest events of a kind a page gets that is behind: at least as many as it shows. All others are sent.
# A server that floods its client would otherwise occupy the page for minutes. A change of the lists needs one event.
MAX_SENT: Final = {"message": 2000, "notification": 1000, "stderr": 1000, "changed": 1}

# Seconds without an event after which a comment is sent, which reveals a closed connection.
KEEPALIVE: Final = 15.0


class EventLog:
    """Events as server-sent events. `publish()` never waits."""

    def __init__(self, max_kept_bytes: int | None = None) -> None:
        # Numbers continue only within one log: a page that has events of another one starts again.
        self.id = secrets.token_hex(8)
        self.last = 0
        self.is_closed = False
        self._kept: deque[tuple[int, str, bytes]] = deque()
        self._size = 0
        self._max_kept_bytes = MAX_KEPT_BYTES if max_kept_bytes is None else max_kept_bytes
        self._changed = asyncio.Event()

    def publish(self, kind: str, fields: object) -> int:
        """Add an event and return its number."""
        self.last += 1
        data = msgspec.json.encode(fields, enc_hook=str)
        event = b"id: %d\nevent: %b\ndata: %b\n\n" % (self.last, kind.encode(), data)
        self._kept.append((self.last, kind, event))
        self._size += len(event)
        while self._size > self._max_kept_bytes and len(self._kept) > 1:
            self._size -= len(self._kept.popleft()[2])
        self._changed.set()
        return self.last

    def close(self) -> None:
        """End every stream."""
        self.is_closed = True
        self._changed.set()

    def after(self, number: int) -> list[tuple[int, bytes]]:
        """Return the kept events after this number, with their numbers; of some kinds only the newest (`MAX_SENT`)."""
        found = []
        left = dict(MAX_SENT)
        for other, kind, event in reversed(self._kept):
            if other <= number:
                break
            if left.get(kind) != 0:
                found.append((other, event))
            if left.get(kind):
                left[kind] -= 1
        return found[::-1]

    async def follow(self, after: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the events after this number, then each new one, until the log is closed."""
        yield b"event: open\ndata: %b\n\n" % msgspec.json.encode({"log": self.id})
        while True:
            for number, event in self.after(after):
                yield event
                after = number
            if self.is_closed:
                return
            if self.last > after:
                continue  # published while the others were sent
            self._changed.clear()
            try:
                async with asyncio.timeout(KEEPALIVE):
                    await self._changed.wait()
            except TimeoutError:
                yield b": alive\n\n"


def describe_failure(error: McpError) -> dict[str, Any]:
    """Return an error as the page shows it. `may_have_run` is True, False, or None where only the server knows."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "may_have_run": error.may_have_run,
        "code": error.code,
        "details": error.details,
    }
