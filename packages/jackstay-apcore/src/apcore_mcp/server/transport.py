"""Transports: stdio, Streamable HTTP, and the deprecated HTTP+SSE.

`run` owns the process and handles signals, as `jackstay.Server.run`. The `run_...` methods are for a running event
loop; HTTP then uses its own thread and loop, and cancelling the method shuts down gracefully.
"""

import asyncio
import ipaddress
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.compat.calls import transport_session_var
from apcore_mcp.compat.components import TransportMethods, refuse
from apcore_mcp.metrics import MetricsExporter
from apcore_mcp.options import TRANSPORTS, check_host_port
from jackstay.server import Server

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi

logger = logging.getLogger("apcore_mcp.server.transport")

# The paths of the endpoint, and of HTTP+SSE (MCP 2024-11-05).
MCP_PATH: Final = "/mcp"
SSE_PATH: Final = "/sse"

# Instead of routes and middleware beside the endpoint.
APP: Final = "serve the app of build_streamable_http_app()"

# Exit codes after SIGINT and SIGTERM. They become 0, because the server ended as requested.
SIGNAL_EXIT_CODES: Final = (130, 143)

# Seconds for `on_exit`. Clients wait about two seconds before they kill the process.
EXIT_HOOK_TIMEOUT: Final = 0.3


class TransportManager(TransportMethods):
    """Runs servers. `wrap_app` returns the ASGI app that is served instead of the endpoint.

    `http` are options of `jackstay.Server.run(transport="http")`: `auth`, `hosts`, `cors` and so on. `on_exit` is
    called before the process is ended while something still runs in it.
    """

    def __init__(
        self,
        wrap_app: "Callable[[App], Asgi] | None" = None,
        on_exit: Callable[[], object] | None = None,
        **http: Any,
    ) -> None:
        is_collector = http.pop("metrics_collector", None) is not None or hasattr(wrap_app, "export_prometheus")
        refuse("metrics_collector", is_collector, "pass it to serve() or MCPServer()")
        self._wrap_app = wrap_app
        self._on_exit = on_exit
        self._http = http

    def run(self, server: Server, transport: str = "stdio", host: str = "127.0.0.1", port: int = 8000) -> None:
        """Serve until the stdio client disconnects or a signal arrives. It owns the process only on the main thread.

        Raises: ValueError; OSError if the server cannot listen on the address.
        """
        is_owner = threading.current_thread() is threading.main_thread()
        exit_process = self._exit if is_owner else _do_not_exit
        if transport == "stdio":
            server.run(exit_process=exit_process)
            return
        server.run(
            transport="http", exit_process=exit_process, wrap_app=self._wrap_app, **self._options(transport, host, port)
        )

    async def run_stdio(self, server: Server, init_options: object = None) -> None:  # noqa: ARG002
        """Serve on stdin and stdout until the client disconnects."""
        self._end_tasks_with(server)
        await server.serve_stdio()

    async def run_streamable_http(
        self,
        server: Server,
        init_options: object = None,  # noqa: ARG002  # the signature of apcore-mcp
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        extra_routes: Sequence[Any] | None = None,
        middleware: Sequence[Any] | None = None,
    ) -> None:
        """Serve Streamable HTTP until it is cancelled or the server is drained.

        Raises: ValueError for a bad host or port; OSError if the server cannot listen on the address.
        """
        refuse("extra_routes and middleware", extra_routes or middleware, APP)
        await self._serve_http(server, self._options("streamable-http", host, port))

    async def run_sse(
        self,
        server: Server,
        init_options: object = None,  # noqa: ARG002  # the signature of apcore-mcp
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        extra_routes: Sequence[Any] | None = None,
        middleware: Sequence[Any] | None = None,
    ) -> None:
        """As `run_streamable_http`, with HTTP+SSE of MCP 2024-11-05 in addition. Deprecated; logs a warning."""
        refuse("extra_routes and middleware", extra_routes or middleware, APP)
        await self._serve_http(server, self._options("sse", host, port))

    def serve_on_this_thread(
        self,
        server: Server,
        transport: str,
        host: str,
        port: int,
        stopping: threading.Event,
        *,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """Serve HTTP on this thread, which is not the main thread, and never end the process.

        `on_ready` is called as soon as clients can connect.

        To stop it from another thread, set `stopping` and then drain the server, which may not have started yet.

        Raises: ValueError; OSError if the server cannot listen on the address.
        """
        self._serve_until(server, self._options(transport, host, port), stopping, on_ready)

    def _serve_until(
        self,
        server: Server,
        options: dict[str, Any],
        stopping: threading.Event,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        def wrap_app(app: "App") -> "Asgi":
            if on_ready is not None:
                on_ready()  # the sockets listen already
            if stopping.is_set():
                app.refuse_new()  # an app that drains at the start ends immediately
            return app if self._wrap_app is None else self._wrap_app(app)

        server.run(transport="http", exit_process=_do_not_exit, wrap_app=wrap_app, **options)

    async def _serve_http(self, server: Server, options: dict[str, Any]) -> None:
        self._end_tasks_with(server)
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
            raise ValueError(f"Unknown transport: {transport!r}; transport must be one of {', '.join(TRANSPORTS)}")
        # Sessions: without them, clients before MCP 2026-07-28 cannot receive requests and notifications.
        options = {"host": host, "port": port, "path": MCP_PATH, "sessions": True, **self._http}
        if not _is_this_machine(host) and self._http.get("auth") is None:
            logger.warning(
                "%s is reachable from the network without authentication: every caller%s can use every tool",
                host,
                "" if self._http.get("hosts") else " that sends `Host: localhost`",
            )
        if transport == "sse":
            logger.warning("the SSE transport is deprecated; use streamable-http. It is served at %s", SSE_PATH)
            options["sse_path"] = SSE_PATH
        return options

    def _validate_host_port(self, host: str, port: int) -> None:
        """Raise ValueError for an empty host or a port outside 1 to 65535."""
        check_host_port(host, port)

    def _exit(self, code: int) -> None:
        """End the process although something still runs in it, after calling `on_exit` with a timeout."""
        if self._on_exit is not None:
            hook = threading.Thread(target=self._on_exit, daemon=True)
            hook.start()
            hook.join(EXIT_HOOK_TIMEOUT)
        os._exit(0 if code in SIGNAL_EXIT_CODES else code)


def _is_this_machine(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _do_not_exit(_: int) -> None:
    """Keep the process running; it belongs to the program."""


__all__ = [
    "APP",
    "EXIT_HOOK_TIMEOUT",
    "MCP_PATH",
    "SIGNAL_EXIT_CODES",
    "SSE_PATH",
    "MetricsExporter",
    "TransportManager",
    "transport_session_var",
]
