"""Who looks after the POSTs that take long, with one timer for all of them.

Most calls have been answered before anybody needs to see whether their client is still there. A timer for each would cost
more than the rest of the driver together; so there is one for all, and a call is looked after between one and two of its
turns after it began.

Must never know what looking after means. Above: `_app`, `_post`. Below: asyncio.
"""

import asyncio
from typing import Generic, Protocol, TypeVar

# A client that left before is found to be gone at once, so it costs nothing but this to be late.
LOOK_EVERY = 0.02


class Watched(Protocol):
    """Something that may take long."""

    def watch(self) -> None:
        """It has taken long. Called once, on the loop."""


W = TypeVar("W", bound=Watched)


class Lookout(Generic[W]):
    """What is under way on one loop. `all` is what began and has not ended."""

    __slots__ = ("_new", "_old", "_timer", "all", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.all: set[W] = set()
        self._new: set[W] = set()
        self._old: set[W] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Lookout for {len(self.all)}>"

    def begin(self, one: W) -> None:
        """This has begun; `end()` it."""
        self.all.add(one)
        self._new.add(one)
        if self._timer is None:
            self._timer = self.loop.call_later(LOOK_EVERY, self._look)

    def end(self, one: W) -> None:
        """This has ended."""
        self.all.discard(one)
        self._new.discard(one)
        self._old.discard(one)

    def _look(self) -> None:
        late, self._old, self._new = self._old, self._new, set()
        for one in late:
            one.watch()
        self._timer = self.loop.call_later(LOOK_EVERY, self._look) if self._old else None
