"""The shared connections: one for each era that the server supports.

The first connection uses the era that the server prefers. If that is the stateless era, the first client that sends
`initialize` causes a second connection in the handshake era, because `server/discover` need not list handshake
revisions. Each client is served in its own era. A server that rejects `initialize` is not probed again until a restart.
"""

import asyncio
import builtins
import logging
from typing import TYPE_CHECKING

from jackstay.errors import McpError
from jackstay.protocol import VERSIONS, Era
from jackstay.protocol.client import ServerFacts
from jackstay.proxy._upstream import Upstream, of_era

if TYPE_CHECKING:
    from jackstay.proxy._proxy import Proxy

logger = logging.getLogger("jackstay.proxy")

# The timeout of the second connection: a multiple of the time that the first one took, with a minimum in seconds.
# A server that never responds to `initialize` delays its first handshake client by this time.
MIN_PROBE_TIMEOUT = 5.0
PROBE_TIMEOUT_FACTOR = 3.0


class Eras:
    """The shared connections of `proxy`."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        # True over stdio: the connection of the era that the client does not use is closed.
        self.has_one_client = False
        self.first: Upstream | None = None
        self.second: Upstream | None = None
        # True if the server supports both eras; None: not probed yet.
        self.is_dual: bool | None = None
        self._server_facts: ServerFacts | None = None
        self._open_seconds = 0.0
        self._probe: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Eras {self.first!r} {self.second!r}>"

    @property
    def all(self) -> list[Upstream]:
        """The open connections."""
        return [upstream for upstream in (self.first, self.second) if upstream is not None]

    async def open(self) -> None:
        """Open the first connection. Raises: McpError after one failed attempt."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.first = self._proxy._make(None)
        await self.first.open()
        self._open_seconds = loop.time() - began

    def start(self) -> None:
        """Open the first connection in the background. Failed attempts are repeated without limit."""
        self.first = self._proxy._make(None)
        self.first.start()

    async def stop(self) -> None:
        """Close all connections, and return when they are closed."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait((self._probe,))
        await asyncio.gather(*(upstream.stop() for upstream in self.all), *self._closing)

    def find(self, *, is_stateless: bool) -> Upstream:
        """Return the connection for clients of this era."""
        assert self.first is not None  # open() comes before any request
        if is_stateless or not self.is_dual:
            return self.first
        if self.second is None:
            self.second = self._proxy._make(Era.HANDSHAKE)
            self.second.start()
        return self.second

    def facts(self, era: Era) -> ServerFacts:
        """Return the server information for this era, or for the other era if the server supports only that one."""
        assert self.first is not None  # open() comes before any request
        if era is Era.HANDSHAKE and self.is_dual:
            if self.second is not None and self.second.starts:
                self._server_facts = self.second.facts
            assert self._server_facts is not None  # set when the probe of the handshake era succeeded
            return self._server_facts
        return self.first.facts

    def reconnected(self, upstream: Upstream) -> None:
        """The server was restarted, perhaps as another version: probe it for the handshake era again."""
        if upstream is self.first and not self.is_dual:
            self.is_dual = None

    async def prepare_handshake(self) -> None:
        """Probe whether the server accepts `initialize`, before the first handshake client gets its response."""
        first = self.first
        if first is None or self.is_dual is not None or not first.is_stateless or not first.is_ready():
            return
        if not of_era(self._proxy._settings.get("versions", VERSIONS), Era.HANDSHAKE):
            return  # the settings allow none
        if self._probe is None:
            self._probe = asyncio.get_running_loop().create_task(self._probe_handshake(first))
        await asyncio.shield(self._probe)

    async def _probe_handshake(self, first: Upstream) -> None:
        second = self._proxy._make(Era.HANDSHAKE)
        try:
            async with asyncio.timeout(max(MIN_PROBE_TIMEOUT, PROBE_TIMEOUT_FACTOR * self._open_seconds)):
                await second.open()
        except (McpError, builtins.TimeoutError) as error:
            logger.info("the server rejects initialize and supports the stateless era only: %s", error)
            self.is_dual = False
            await second.stop()
        except asyncio.CancelledError:
            await second.stop()
            raise
        else:
            self._keep(first, second)
        finally:
            self._probe = None

    def _keep(self, first: Upstream, second: Upstream) -> None:
        if self.has_one_client:
            first.stop_in_background(self._closing)
            self.first, self.is_dual = second, False
            return
        self._server_facts, self.is_dual = second.facts, True
        if self._proxy.proxy_options.per_client:
            second.stop_in_background(self._closing)  # clients with a session have dedicated servers
        else:
            self.second = second
