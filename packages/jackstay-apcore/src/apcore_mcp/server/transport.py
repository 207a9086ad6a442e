"""How a server reaches its clients: stdio, Streamable HTTP, or the old HTTP+SSE beside it.

`run` owns the process: signals end it in order, as jackstay's `Server.run` does. The `run_...` methods are for a loop that is
somebody else's; HTTP then has a thread and a loop of its own, and cancelling the method ends it in order.

Must never know a module. Above: `serving`, other projects. Below: `jackstay.server`.
"""

import asyncio
import ipaddress
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.options import TRANSPORTS, check_host_port
from jackstay.server import Server

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi

logger = logging.getLogger("apcore_mcp.server.transport")

# Where the endpoint of both eras is, and where that of 2024-11-05, if it is served.
MCP_PATH: Final = "/mcp"
SSE_PATH: Final = "/sse"

# What a program that a signal ended exits with, by custom. This one was asked to end, and did: that is no failure.
ASKED_TO_END: Final = (130, 143)

# Seconds for what is called before the process is left. A client waits two before it gets rough.
LAST_WORDS: Final = 0.3


class TransportManager:
    """Runs servers. `around` gives the ASGI app that is served in the place of the endpoint; `http` are options of it.

    `http` is what jackstay's `Server.run(transport="http")` takes: `auth`, `hosts`, `cors` and so on. `on_leave` is called
    before the process is ended because something still runs in it, and has a moment for what it does.
    """

    def __init__(
        self,
        around: "Callable[[App], Asgi] | None" = None,
        on_leave: Callable[[], object] | None = None,
        **http: Any,
    ) -> None:
        self._around = around
        self._on_leave = on_leave
        self._http = http

    def run(
        self, server: Server, transport: str = "stdio", host: str = "127.0.0.1", port: int = 8000
    ) -> None:
        """Serve until the client at stdio is gone, or a signal comes. Only on the main thread does it own the process.

        Raises: ValueError; OSError, if it cannot be listened there.
        """
        is_owner = threading.current_thread() is threading.main_thread()
        leave = self._leave if is_owner else _stay
        if transport == "stdio":
            server.run(leave=leave)
            return
        server.run(transport="http", leave=leave, around=self._around, **self._options(transport, host, port))

    async def run_stdio(self, server: Server, init_options: object = None) -> None:  # noqa: ARG002  # the seed's
        """Serve this process's stdin and stdout until the client is gone."""
        await server.serve_stdio()

    async def run_streamable_http(
        self,
        server: Server,
        init_options: object = None,  # noqa: ARG002  # the seed's; jackstay knows its own
        host: str = "127.0.0.1",
        port: int = 8000,
    ) -> None:
        """Serve Streamable HTTP until it is cancelled, or the server drained.

        Raises: ValueError for a bad host or port; OSError, if it cannot be listened there.
        """
        await self._serve_http(server, self._options("streamable-http", host, port))

    async def run_sse(
        self,
        server: Server,
        init_options: object = None,  # noqa: ARG002  # the seed's; jackstay knows its own
        host: str = "127.0.0.1",
        port: int = 8000,
    ) -> None:
        """As `run_streamable_http`, and HTTP+SSE of 2024-11-05 beside it. Deprecated, and says so."""
        await self._serve_http(server, self._options("sse", host, port))

    def serve_here(
        self, server: Server, transport: str, host: str, port: int, stopping: threading.Event
    ) -> None:
        """Serve HTTP on this thread, which is not the main one, and never end the process.

        To end it from another thread, set `stopping` and drain the server, in this order: it may not have begun yet.

        Raises: ValueError; OSError, if it cannot be listened there.
        """
        self._serve_until(server, self._options(transport, host, port), stopping)

    def _serve_until(self, server: Server, options: dict[str, Any], stopping: threading.Event) -> None:
        def around(app: "App") -> "Asgi":
            if stopping.is_set():
                app.refuse_new()  # what is draining when it begins ends at once
            return app if self._around is None else self._around(app)

        server.run(transport="http", leave=_stay, around=around, **options)

    async def _serve_http(self, server: Server, options: dict[str, Any]) -> None:
        stopping = threading.Event()
        serving = asyncio.ensure_future(asyncio.to_thread(self._serve_until, server, options, stopping))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stopping.set()
            server.drain()
            await asyncio.wait([serving])
            raise

    def _options(self, transport: str, host: str, port: int) -> dict[str, Any]:
        self._validate_host_port(host, port)
        if transport not in TRANSPORTS[1:]:
            raise ValueError(f"transport must be one of {', '.join(TRANSPORTS)}, not {transport!r}")
        # Sessions: clients of before 2026-07-28 can be asked and told nothing without them.
        options = {"host": host, "port": port, "path": MCP_PATH, "sessions": True, **self._http}
        if not _is_this_machine(host) and self._http.get("auth") is None:
            logger.warning(
                "%s is open to the network and asks for no key: whoever reaches it can call every tool", host
            )
        if transport == "sse":
            logger.warning("the SSE transport is deprecated: use streamable-http")
            options["sse_path"] = SSE_PATH
        return options

    def _validate_host_port(self, host: str, port: int) -> None:
        """Raises: ValueError for an empty host, or a port outside 1 to 65535."""
        check_host_port(host, port)

    def _leave(self, code: int) -> None:
        """End the process where something still runs, in a module or in what is called here: nothing is waited for long."""
        if self._on_leave is not None:
            last = threading.Thread(target=self._on_leave, daemon=True)
            last.start()
            last.join(LAST_WORDS)
        os._exit(0 if code in ASKED_TO_END else code)


def _is_this_machine(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _stay(_: int) -> None:
    """The process is somebody else's."""


__all__ = ["ASKED_TO_END", "LAST_WORDS", "MCP_PATH", "SSE_PATH", "TransportManager"]
