"""The workers that share sessions with this one: its own number among them, and which of them are alive.

Several workers may serve one session and send requests to its client at the same time. If each of them counted from 1,
the response to the request of one would complete that of another. So each worker has a random number, which its request
ids and the names of its streams begin with.
"""

import itertools
import secrets
from typing import Self

from jackstay.errors import RequestId
from jackstay.server._changes import WorkerBus

# Together 53 bits: every client can represent the ids as integers (RFC 8259, section 6).
WORKER_BITS = 30
COUNT_BITS = 23

# Seconds without a message from a worker after which it counts as dead: two sweeps, and one more for a slow loop.
GONE_AFTER = 9.0

# Workers that are remembered. More than this are not alive at once.
MAX_REMEMBERED = 4096


class PeerWorkers:
    """An iterator of request ids, shared by all sessions of this worker, and the signs of life of the others.

    Thread-safe. The count of the ids has `COUNT_BITS`.
    """

    def __init__(self) -> None:
        self._count = itertools.count(1)
        self._number: int | None = None
        # The mailboxes of the bus, if it has them: they list which workers are alive. Otherwise workers publish it.
        self.mailboxes: WorkerBus | None = None
        # When each other worker was last alive, and when this one began to watch.
        self._alive: dict[str, float] = {}
        self._since: float | None = None

    def __repr__(self) -> str:
        return f"<PeerWorkers of {self.name}, {len(self._alive)} others>"

    @property
    def number(self) -> int:
        """The number of this worker."""
        if self._number is None:  # not before: the app may have been created before a fork
            self._number = secrets.randbits(WORKER_BITS)
        return self._number

    @property
    def name(self) -> str:
        """The prefix of the names of streams."""
        return f"{self.number:x}"

    @staticmethod
    def sender_of(id: RequestId | None) -> str | None:
        """Return the name of the worker that has sent a request with this id; None if it cannot be one of ours."""
        return f"{id >> COUNT_BITS:x}" if isinstance(id, int) and id >= 0 else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        return (self.number << COUNT_BITS) | (next(self._count) & ((1 << COUNT_BITS) - 1))

    def watch(self, now: float) -> None:
        """Begin to watch: from now on the messages of other workers are received."""
        if self._since is None:
            self._since = now

    def received(self, name: str, now: float) -> None:
        """Note that a worker is alive."""
        self._alive.pop(name, None)
        self._alive[name] = now
        if len(self._alive) > MAX_REMEMBERED:
            del self._alive[next(iter(self._alive))]

    async def is_gone(self, name: str, now: float) -> bool:
        """Return whether a worker has been silent for so long that it must be dead."""
        if name == self.name:
            return False
        if self.mailboxes is not None:
            return await self.mailboxes.is_gone(name)
        if self._since is None:
            return False
        return now - max(self._since, self._alive.get(name, self._since)) > GONE_AFTER
