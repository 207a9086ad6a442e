"""The ids of the requests that a worker sends to the clients of its sessions.

Several workers may serve one session and send requests at the same time. If each of them counted from 1, the response
to the request of one would complete that of another. So the ids of a worker begin at a random number.
"""

import itertools
import secrets
from typing import Self

# Together 53 bits: every client can represent the ids as integers (RFC 8259, section 6).
WORKER_BITS = 30
COUNT_BITS = 23


class RequestIds:
    """An iterator of ids, shared by all sessions of a worker. Its count has `COUNT_BITS`. Thread-safe."""

    def __init__(self) -> None:
        self._count = itertools.count(1)
        self._worker: int | None = None

    def __repr__(self) -> str:
        return f"<RequestIds of worker {self._worker}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        if self._worker is None:  # not before: the app may have been created before a fork
            self._worker = secrets.randbits(WORKER_BITS)
        return (self._worker << COUNT_BITS) | (next(self._count) & ((1 << COUNT_BITS) - 1))
