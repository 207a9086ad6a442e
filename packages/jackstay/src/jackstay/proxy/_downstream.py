"""The connection to a client over stdio.

The response to `initialize` is sent only after the upstream server has declared its capabilities in the handshake era.
"""

import asyncio
from contextlib import suppress
from typing import Any

from jackstay.errors import McpError
from jackstay.protocol.server import ServerConnection
from jackstay.server import Connection, Server

_INITIALIZE = b'"initialize"'


class DownstreamConnection(Connection):
    """A connection that handles `initialize` after `server` has prepared for it, with its configuration as of then."""

    def __init__(self, config: Any, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._has_started = False
        self._preparing: asyncio.Task[None] | None = None

    def frames_arrived(self, pulled: bytes | McpError | None = None) -> None:
        if self._has_started:
            super().frames_arrived(pulled)
            return
        if self._transport is None or self._preparing is not None:
            return
        frame = self._transport.next_frame()
        if isinstance(frame, bytes) and _INITIALIZE in frame:
            self._preparing = self._loop.create_task(self._begin(frame))
            return
        self._has_started = frame is not None
        super().frames_arrived(frame)

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        if self._preparing is not None:
            self._preparing.cancel()  # the client is gone: the shutdown need not wait
        super().went_down(error, exit_code, was_silent)

    async def _begin(self, frame: bytes) -> None:
        with suppress(asyncio.CancelledError):  # the client disconnected, or the proxy is shutting down
            await self._server._before_handshake()
        if self._transport is None or self._ending is not None:
            return
        self.server_config, self.capabilities = self._server._current_config()
        if self.core.version is None and not self.core.in_flight:
            self.core = ServerConnection(self.server_config)
        self._has_started = True
        self._preparing = None
        super().frames_arrived(frame)
