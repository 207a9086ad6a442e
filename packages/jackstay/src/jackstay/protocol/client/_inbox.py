"""Notifications on their way to a user's handlers: in order, bounded, and never a reason to stop reading.

A slow handler must not stop answers from arriving, so what it has not taken yet waits here. What only says "look
again" is kept once: one `list_changed` of each kind, one update of each resource, the newest progress of each token.
When the queue is still full, the oldest log message goes, and then the oldest of anything; every drop is counted.

Above: the client's driver, which puts and takes. Below: nothing.
"""

from collections import deque
from collections.abc import Hashable

import msgspec

# Room for a burst: at a few hundred bytes each, a connection whose handler hangs holds well under a megabyte. They may be
# larger, up to a whole frame; so their bytes are bounded, too.
CAPACITY = 1024
MOST_BYTES = 8 << 20

_LOG = "notifications/message"


class Notice(msgspec.Struct, frozen=True):
    """A notification, copied out of its frame."""

    method: str
    params: bytes


class _Uri(msgspec.Struct):
    uri: str = ""


class _Token(msgspec.Struct, rename="camel"):
    progress_token: int | str = ""


_read_uri = msgspec.json.Decoder(_Uri).decode
_read_token = msgspec.json.Decoder(_Token).decode


class Inbox:
    """A queue that keeps one of a kind where one is enough. `put()` and `take()`; `dropped` counts the lost."""

    __slots__ = ("_bytes", "_capacity", "_logs", "_most_bytes", "_notices", "_order", "dropped")

    def __init__(self, capacity: int = CAPACITY, most_bytes: int = MOST_BYTES) -> None:
        self._capacity = capacity
        self._most_bytes = most_bytes
        self._bytes = 0
        # By key, in order of arrival; a key is the kind for what is kept once, a number for all else.
        self._notices: dict[Hashable, Notice] = {}
        # The keys of those that are log messages, oldest first.
        self._logs: deque[Hashable] = deque()
        self._order = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._notices)

    def __repr__(self) -> str:
        return f"<Inbox {len(self)} waiting, {self.dropped} dropped>"

    def put(self, method: str, params: msgspec.Raw | None) -> None:
        """Add a notification; `params` is copied. An older one of the same kind gives way and the newest is last.

        One that is larger than all the room there is alone in it: what was sent is not lost for its size.
        """
        notice = Notice(method, b"" if params is None else bytes(params))
        key = self._key(notice)
        self._forget(key)
        size = len(notice.params)
        while self._notices and (len(self) >= self._capacity or self._bytes + size > self._most_bytes):
            self._drop()
        self._notices[key] = notice
        self._bytes += size
        if method == _LOG:
            self._logs.append(key)

    def take(self) -> Notice | None:
        """The oldest, or None."""
        if not self._notices:
            return None
        key = next(iter(self._notices))
        if self._logs and self._logs[0] == key:
            self._logs.popleft()
        return self._forget(key)

    def _drop(self) -> None:
        self.dropped += 1
        self._forget(self._logs.popleft() if self._logs else next(iter(self._notices)))

    def _forget(self, key: Hashable) -> Notice | None:
        notice = self._notices.pop(key, None)
        if notice is not None:
            self._bytes -= len(notice.params)
        return notice

    def _key(self, notice: Notice) -> Hashable:
        method = notice.method
        try:
            if method.endswith("/list_changed"):
                return method
            if method == "notifications/resources/updated":
                return method, _read_uri(notice.params).uri
            if method == "notifications/progress":
                return method, _read_token(notice.params).progress_token
        except msgspec.DecodeError:
            pass  # kept as it is: whoever takes it says what is wrong with it
        self._order += 1
        return self._order
