"""A bounded queue of notifications for the handlers of a user, so that a slow handler never delays responses.

Notifications of which only the newest matters are kept once: one `list_changed` of each kind, one update of each
resource, the newest progress of each token. When the queue is full, the oldest log message is dropped, then the oldest
notification of any kind; drops are counted.
"""

from collections import deque
from collections.abc import Hashable

import msgspec

from jackstay.protocol._methods import LIST_CHANGES
from jackstay.protocol.client._message_classifier import progress_token

# Enough for a burst: at a few hundred bytes each, a connection whose handler hangs uses well under a megabyte. They may
# be larger, up to a whole frame, so their bytes are bounded too.
CAPACITY = 1024
MAX_BYTES = 8 << 20

_LOG = "notifications/message"


class QueuedNotification(msgspec.Struct, frozen=True):
    """A notification, copied out of its frame."""

    method: str
    params: bytes


class _Uri(msgspec.Struct):
    uri: str = ""


_read_uri = msgspec.json.Decoder(_Uri).decode


class Inbox:
    """A queue that keeps only the newest of a kind where that is enough. `dropped` counts dropped notifications."""

    __slots__ = ("_bytes", "_capacity", "_logs", "_max_bytes", "_notices", "_order", "dropped")

    def __init__(self, capacity: int = CAPACITY, max_bytes: int = MAX_BYTES) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._bytes = 0
        # By key, in order of arrival. The key is the kind for notifications that are kept once, else a number.
        self._notices: dict[Hashable, QueuedNotification] = {}
        # The keys of the log messages, oldest first.
        self._logs: deque[Hashable] = deque()
        self._order = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._notices)

    def __repr__(self) -> str:
        return f"<Inbox {len(self)} waiting, {self.dropped} dropped>"

    def put(self, method: str, params: msgspec.Raw | None) -> None:
        """Add a notification; `params` is copied. It replaces an older one of the same kind.

        One that exceeds `max_bytes` by itself is kept and replaces all others.
        """
        notice = QueuedNotification(method, b"" if params is None else bytes(params))
        key = self._key(notice)
        self._forget(key)
        size = len(notice.params)
        while self._notices and (len(self) >= self._capacity or self._bytes + size > self._max_bytes):
            self._drop()
        self._notices[key] = notice
        self._bytes += size
        if method == _LOG:
            self._logs.append(key)

    def pop(self) -> QueuedNotification | None:
        """Remove and return the oldest notification, or None."""
        if not self._notices:
            return None
        key = next(iter(self._notices))
        if self._logs and self._logs[0] == key:
            self._logs.popleft()
        return self._forget(key)

    def _drop(self) -> None:
        self.dropped += 1
        self._forget(self._logs.popleft() if self._logs else next(iter(self._notices)))

    def _forget(self, key: Hashable) -> QueuedNotification | None:
        notice = self._notices.pop(key, None)
        if notice is not None:
            self._bytes -= len(notice.params)
        return notice

    def _key(self, notice: QueuedNotification) -> Hashable:
        method = notice.method
        try:
            if method in LIST_CHANGES:
                return method
            if method == "notifications/resources/updated":
                return method, _read_uri(notice.params).uri
            if method == "notifications/progress" and (token := progress_token(notice.params)) is not None:
                return method, token
        except msgspec.DecodeError:
            pass  # kept: the handler's decoder reports the error
        self._order += 1
        return self._order
