"""The connection to a client over stdio: `initialize` is answered when it is known what the server declares in that era."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from jackstay.errors import McpError
from jackstay.protocol.server import ServerConnection, ServerOffer
from jackstay.server import Connection

_INITIALIZE = b'"initialize"'


class FrontConnection(Connection):
    """A connection whose first frame waits for `prepare()`, if it is an `initialize`; `offering()` is called afterwards."""

    __slots__ = ("_has_begun", "_offering", "_prepare", "_preparing")

    def __init__(
        self,
        terms: Any,
        prepare: Callable[[], Awaitable[None]],
        offering: Callable[[], tuple[ServerOffer, frozenset[str]]],
    ) -> None:
        super().__init__(terms)
        self._prepare = prepare
        self._offering = offering
        self._has_begun = False
        self._preparing: asyncio.Task[None] | None = None

    def frames_arrived(self) -> None:
        if self._has_begun:
            super().frames_arrived()
            return
        if self._transport is None or self._preparing is not None:
            return
        frame = self._transport.next_frame()
        if isinstance(frame, bytes) and _INITIALIZE in frame:
            self._preparing = self._loop.create_task(self._begin(frame))
            return
        if frame is not None:
            self._has_begun = True
            self._receive(frame)
        super().frames_arrived()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        if self._preparing is not None:
            self._preparing.cancel()  # nobody waits for the answer: the end must not wait either
        super().went_down(error, exit_code, was_silent)

    async def _begin(self, frame: bytes) -> None:
        try:
            await self._prepare()
        except asyncio.CancelledError:
            pass  # the client is gone, or we are
        if self._transport is None or self._ending is not None:
            return
        self.offer, self.offered = self._offering()
        if self.core.version is None and not self.core.in_flight:
            self.core = ServerConnection(self.offer)
        self._has_begun = True
        self._preparing = None
        self._receive(frame)
        super().frames_arrived()


FrontConnection.PERFORM = Connection.PERFORM
