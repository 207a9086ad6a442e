"""`MCPServer`: serve a registry on a background thread.

The thread has its own event loop, handles no signals and never ends the process. `start`, `stop` and `wait` may be
called from any thread and in any order.
"""

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Unpack

import msgspec

from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.compat.keywords import CompatKeywords
from apcore_mcp.options import EXECUTOR_DEFAULTS, ServeOptions
from apcore_mcp.serving import open_bridge, read_options

if TYPE_CHECKING:
    from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

logger = logging.getLogger("apcore_mcp.background")


class MCPServer:
    """Serves in the background: `start()`, `stop()`, `wait()`. The keywords are those of `serve()`.

    Raises: TypeError and ValueError, as `serve()` does.
    """

    def __init__(self, registry_or_executor: "Registry | Executor", **serve_kwargs: Unpack[CompatKeywords]) -> None:
        to_executor(registry_or_executor)
        options = read_options(serve_kwargs)
        self._executor = to_executor(registry_or_executor, options)
        # The executor has them now; it serves every run.
        self._options = msgspec.structs.replace(options, **EXECUTOR_DEFAULTS)
        self._lock = threading.Lock()
        self._run: _Run | None = None

    def __repr__(self) -> str:
        return f"<MCPServer {self._options.name} {'running' if self.is_running else 'stopped'}>"

    @property
    def address(self) -> str:
        """The URL of the server without the path, or "stdio"."""
        options = self._options
        return "stdio" if options.transport == "stdio" else f"http://{options.host}:{options.port}"

    @property
    def is_running(self) -> bool:
        """Whether the server runs: from `start()` until it has stopped."""
        run = self._run
        return run is not None and run.is_alive()

    @property
    def error(self) -> BaseException | None:
        """The error of the last run, if it failed, for example because the port is in use. It is also logged."""
        run = self._run
        return None if run is None else run.error

    def start(self) -> None:
        """Start to serve and return immediately. Does nothing if the server runs."""
        with self._lock:
            if not self.is_running:
                self._run = _Run(self._executor, self._options)
                self._run.start()

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until clients can connect. Return False after `timeout` seconds, or if the server does not run."""
        run = self._run
        if run is None:
            return False
        run.is_settled.wait(timeout)
        return run.is_ready

    def stop(self) -> None:
        """Shut down gracefully and return immediately; `wait()` for the end."""
        run = self._run
        if run is not None:
            run.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server has stopped. Return False if it still runs after `timeout` seconds."""
        run = self._run
        if run is not None and run.ident is not None:
            run.join(timeout)
        return not self.is_running


class _Run(threading.Thread):
    """One run. If it is stopped before it serves, it does not serve."""

    def __init__(self, executor: "Executor", options: ServeOptions) -> None:
        super().__init__(name=f"{options.name}-server", daemon=True)
        self.error: BaseException | None = None
        self._executor = executor
        self._options = options
        self._stopping = threading.Event()
        self._bridge: Bridge | None = None
        self.is_ready = False
        # Set when it is ready, or has ended.
        self.is_settled = threading.Event()

    def run(self) -> None:
        try:
            with open_bridge(self._executor, self._options) as bridge:
                self._bridge = bridge
                if self._options.transport == "stdio":
                    self._set_ready()
                    asyncio.run(self._serve_stdio(bridge))
                elif not self._stopping.is_set():
                    address = self._options.host, self._options.port
                    bridge.transport().serve_on_this_thread(
                        bridge.server, self._options.transport, *address, self._stopping, on_ready=self._set_ready
                    )
        except BaseException as error:  # the top of the thread: the error is available as `MCPServer.error`
            self.error = error
            logger.error("%s failed: %s", self._options.name, error, exc_info=error)
        finally:
            self.is_ready = False
            self.is_settled.set()

    def _set_ready(self) -> None:
        self.is_ready = True
        self.is_settled.set()

    def stop(self) -> None:
        self._stopping.set()
        bridge = self._bridge
        if bridge is not None:
            bridge.server.drain()

    async def _serve_stdio(self, bridge: Bridge) -> None:
        serving = asyncio.ensure_future(bridge.server.serve_stdio())
        # `drain` affects only an open connection; before there is one, the event must be polled.
        while not serving.done() and not self._stopping.is_set():
            await asyncio.wait([serving], timeout=0.2)
        if not serving.done():
            bridge.server.drain()
        await serving


__all__ = ["MCPServer"]
