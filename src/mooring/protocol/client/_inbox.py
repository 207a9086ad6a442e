"""Notifications on their way to a user's handlers: in order, bounded, and never a reason to stop reading.

A slow handler must not stop answers from arriving, so what it has not taken yet waits here. What only says "look
again" is kept once: one `list_changed` of each kind, one update of each resource, the newest progress of each token.
When the queue is still full, the oldest log message goes, and then the oldest of anything; every drop is counted.

Above: the client's driver, which puts and takes. Below: nothing.
"""

from collections import deque
from collections.abc import Hashable

import msgspec

# Room for a burst; at a few hundred bytes each, a connection whose handler hangs holds well under a megabyte.
CAPACITY = 1024

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

    __slots__ = ("_capacity", "_logs", "_notices", "_order", "dropped")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        # By key, in order of arrival; a key is the kind for what is kept once, a number for all else.
        self._notices: dict[Hashable, Notice] = {}
        self._logs: deque[Hashable] = deque()
        self._order = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._notices)

    def __repr__(self) -> str:
        return f"<Inbox {len(self)} waiting, {self.dropped} dropped>"

    def put(self, method: str, params: msgspec.Raw | None) -> None:
        """Add a notification; `params` is copied. An older one of the same kind gives way and the newest is last."""
        notice = Notice(method, b"" if params is None else bytes(params))
        key = self._key(notice)
        self._notices.pop(key, None)
        while len(self._notices) >= self._capacity:
            self._drop()
        self._notices[key] = notice
        if method == _LOG:
            self._logs.append(key)

    def take(self) -> Notice | None:
        """The oldest, or None."""
        if not self._notices:
            return None
        return self._notices.pop(next(iter(self._notices)))

    def _drop(self) -> None:
        self.dropped += 1
        while self._logs:
            if self._notices.pop(self._logs.popleft(), None) is not None:
                return  # logs that were taken meanwhile are passed over
        del self._notices[next(iter(self._notices))]

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
