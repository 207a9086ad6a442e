"""The servers that clients share: one connection for each era that the server supports.

The first connection is made when the proxy starts, in the era that the server prefers. If that is the stateless one, the
server may support the handshake as well, and `server/discover` need not list it: the first client that sends `initialize`
causes a second connection, in the handshake era alone. Each client is then served in its own era, and keeps what only its era
has. A server that refuses `initialize` is not tried again until it was restarted.
"""

import asyncio
import builtins
import logging
from collections.abc import Callable

from jackstay.errors import McpError
from jackstay.protocol import Era
from jackstay.protocol.client import ServerFacts
from jackstay.proxy._back import Back

logger = logging.getLogger("jackstay.proxy")

# How long the second connection may take: a multiple of what the first took, and at least so many seconds. A server that
# never answers `initialize` delays its first handshake client by as much.
MIN_START = 5.0
START_FACTOR = 3.0


class Eras:
    """The shared connections. `make(era)` returns a new one, for that era alone if one is given.

    `has_handshake`: the settings permit a revision with a handshake. `is_temporary`: the second connection is closed as soon as
    it is known what the server declares in it (clients with a session have servers of their own).
    """

    def __init__(
        self, make: Callable[[Era | None], Back], *, has_handshake: bool, is_temporary: bool
    ) -> None:
        self._make = make
        self._has_handshake = has_handshake
        self._is_temporary = is_temporary
        # Over stdio there is one client: the connection of the other era is closed.
        self.has_one_client = False
        self.first: Back | None = None
        self.second: Back | None = None
        # Whether the server accepts `initialize` beside the stateless era; None: not known.
        self.is_dual: bool | None = None
        self._facts: ServerFacts | None = None
        self._took = 0.0
        self._learning: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Eras {self.first!r} {self.second!r}>"

    @property
    def all(self) -> list[Back]:
        """The connections that are kept."""
        return [back for back in (self.first, self.second) if back is not None]

    async def open(self) -> None:
        """Make the first connection. Raises: why it cannot be made, after one attempt."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.first = self._make(None)
        await self.first.open()
        self._took = loop.time() - began

    async def stop(self) -> None:
        """Close all connections; returns when nothing of them is left."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.wait((self._learning,))
        await asyncio.gather(*(back.stop() for back in self.all), *self._ending)

    def find(self, *, is_stateless: bool) -> Back:
        """The connection for clients of this era."""
        assert self.first is not None  # nobody is served before it was opened
        if is_stateless or not self.is_dual:
            return self.first
        if self.second is None:
            self.second = self._make(Era.HANDSHAKE)
            self.second.begin()
        return self.second

    def facts(self, era: Era) -> ServerFacts:
        """What the server declares in this era, or in the other where it has only that."""
        assert self.first is not None  # nobody is served before it was opened
        if era is Era.HANDSHAKE and self.is_dual:
            if self.second is not None and self.second.has_facts:
                self._facts = self.second.facts
            assert self._facts is not None  # dual is what answered `initialize`
            return self._facts
        return self.first.facts

    def came_back(self, back: Back) -> None:
        """This server was started again. It may be another version: whether it is dual is found out again."""
        if back is self.first and not self.is_dual:
            self.is_dual = None

    async def prepare_handshake(self) -> None:
        """Find out whether the server accepts `initialize`, before the first client that sent one gets its answer."""
        first = self.first
        if first is None or self.is_dual is not None or not self._has_handshake:
            return
        if not first.is_stateless or not first.is_there():
            return
        if self._learning is None:
            self._learning = asyncio.get_running_loop().create_task(self._learn())
        await asyncio.shield(self._learning)

    async def _learn(self) -> None:
        second = self._make(Era.HANDSHAKE)
        try:
            async with asyncio.timeout(max(MIN_START, START_FACTOR * self._took)):
                await second.open()
        except (McpError, builtins.TimeoutError) as error:
            logger.info("the server accepts no initialize, only the stateless era: %s", error)
            self.is_dual = False
            await second.stop()
        except asyncio.CancelledError:
            await second.stop()
            raise
        else:
            self._keep(second)
        finally:
            self._learning = None

    def _keep(self, second: Back) -> None:
        if self.has_one_client:
            assert self.first is not None  # its era was found out before
            self._end(self.first)
            self.first, self.is_dual = second, False
            return
        self._facts, self.is_dual = second.facts, True
        if self._is_temporary:
            self._end(second)
        else:
            self.second = second

    def _end(self, back: Back) -> None:
        task = asyncio.get_running_loop().create_task(back.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
