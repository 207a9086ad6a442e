"""`Proxy`: a `Server` that forwards every request to an upstream server.

It is run or mounted like any `Server`: `run()`, `serve()`, `asgi()`. It declares what the upstream server declares. All
clients share the upstream server; with `per_client`, each client that has a session gets a dedicated one.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec.structs import replace

from jackstay._signatures import shows
from jackstay.client import as_target
from jackstay.errors import BackpressureError, Json
from jackstay.protocol import Era
from jackstay.protocol.client import ServerFacts
from jackstay.protocol.server import ServerConfig, ServerOptions
from jackstay.proxy._bodies import downstream_capabilities
from jackstay.proxy._downstream import DownstreamConnection
from jackstay.proxy._eras import Eras
from jackstay.proxy._options import KEEPALIVE, ProxyOptions
from jackstay.proxy._relay import Relay
from jackstay.proxy._report import Report, ServerStatus, Snapshot, metrics_text, status_page
from jackstay.proxy._router import Router
from jackstay.proxy._upstream import Upstream
from jackstay.server import CAPABILITIES, CHANGES, Connection, Driver, Kind, Server, clients_of
from jackstay.transport import StdioTarget, Target, kill_children
from jackstay.types import encode_json

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader
    from jackstay.proxy._mirror import Mirror
    from jackstay.server import Handlers, Mount
    from jackstay.server.http import App, Asgi, Guard, HttpKeywords, RunHttpKeywords

logger = logging.getLogger("jackstay.proxy")

# What the proxy declares to a shared server. Whether a client supports a request is checked for each call.
ALL_CAPABILITIES: dict[str, Any] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}

# Over stdio the shutdown takes 1.5 s at most: this time for calls, and this time for each step of closing the child.
STDIO_DRAIN = 0.7
STDIO_CLOSE_STEP = 0.12

# Over HTTP there is no such limit. Closing a child has three steps; the fourth is a reserve.
HTTP_DRAIN = 1.0
HTTP_CLOSE_STEP = 2.0
HTTP_SHUTDOWN = HTTP_DRAIN + 4 * HTTP_CLOSE_STEP


class Proxy(Server):
    """A server that forwards every request to `target`.

    Args:
        target: the upstream server: a transport, a URL or a path, as for `connect()`.
        options: the options of the proxy itself.
        settings: keyword arguments of `connect()` for the client of the upstream server.
        prepare: awaited once, before the upstream server is started.

    Raises: UsageError for an option or setting that is unknown or out of range.
    """

    def __init__(
        self,
        target: Target | str | os.PathLike[str],
        options: ProxyOptions | None = None,
        *,
        settings: dict[str, Any] | None = None,
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        target = as_target(target, "Proxy()")
        super().__init__(target.name or "proxy")
        self.proxy_options = ProxyOptions() if options is None else options
        self._report = Report()
        self._settings = {"busy": "wait", "max_pending": 4096, "keepalive": KEEPALIVE, **(settings or {})}
        self._target = target
        if self.proxy_options.status and isinstance(target, StdioTarget) and "stderr" not in self._settings:
            self._target = target.with_stderr(self._keep_stderr)
        self._prepare = prepare
        # The lists of the upstream server, once this proxy is mounted in another server.
        self._mirror: Mirror | None = None
        self._handler_drain = HTTP_DRAIN
        self._eras = Eras(self)
        self._dedicated: dict[int, Upstream] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        # Connection number -> shared server. It does not change while the client is connected.
        self._shared: dict[int, Upstream] = {}
        self._config_for = lru_cache(maxsize=1)(self._make_config)
        self._router = Router(self)
        self._relay = Relay(self)
        self.on_startup(self._open)

    def __repr__(self) -> str:
        return f"<Proxy {self._eras!r}, {len(self._dedicated)} dedicated servers>"

    @property
    def _handlers(self) -> "Handlers":
        """The object that serves the requests."""
        return self._relay

    # --- start and shutdown -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the upstream server. `run()` does this; call it yourself before `serve()` or `asgi()`.

        Raises: McpError after one failed attempt.
        """
        await self.startup()

    async def _open(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        if self._mirror is None:
            await self._eras.open()
        else:
            self._eras.start()
            await self._mirror.wait_for_start()

    async def _before_handshake(self) -> None:
        """Find out what the server declares in the handshake era, before the first `initialize` is answered."""
        if self._mirror is not None:
            await self._mirror.wait_for_start()
        await self._eras.prepare_handshake()

    async def _end_serving(self) -> None:
        """Stop all upstream servers."""
        self._router.stop()
        if self._mirror is not None:
            self._mirror.stop()
        await asyncio.gather(
            *(upstream.stop() for upstream in self._dedicated.values()), self._eras.stop(), *self._stopping
        )

    @shows("jackstay.server.http:HttpOptions", "jackstay.server.http:RunOptions")
    def run(
        self,
        *,
        transport: str = "stdio",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        exit_process: Callable[[int], object] = os._exit,
        wrap_app: "Callable[[App], Asgi] | None" = None,
        **options: "Unpack[RunHttpKeywords]",
    ) -> int:
        """Run like `Server.run`. Over HTTP, sessions are on by default: server requests and notifications need them.

        Raises: the errors of `Server.run`, and McpError if the upstream server cannot be started.
        """
        if transport == "stdio":
            self._settings.setdefault("close_step", STDIO_CLOSE_STEP)
            self._handler_drain = STDIO_DRAIN
            self._eras.has_one_client = True
        else:
            self._settings.setdefault("close_step", HTTP_CLOSE_STEP)
            self.options = replace(self.options, drain_timeout=HTTP_SHUTDOWN)
            options.setdefault("sessions", True)

        def kill_and_exit(code: int) -> object:
            kill_children()  # a second signal, or the shutdown timed out
            return exit_process(code)

        return super().run(
            transport=transport,
            loop_factory=loop_factory,
            exit_process=kill_and_exit,
            wrap_app=self._with_pages if wrap_app is None else wrap_app,
            **options,
        )

    @shows("jackstay.server.http:HttpOptions")
    def asgi(self, *, guard: "Guard | None" = None, **options: "Unpack[HttpKeywords]") -> "App":
        """Return the app of `Server.asgi`, with sessions by default.

        Await `open()` before the first request, and `shutdown()` at the end.
        """
        options.setdefault("sessions", True)
        app = super().asgi(guard=guard, **options)
        app.check_health_with(self._check_health)
        return app

    # --- status -------------------------------------------------------------------------------------------------------

    async def snapshot(self, sessions: int = 0) -> Snapshot:
        """Check the servers and return their states. It takes two seconds if one of them does not respond."""
        shared, dedicated = self._eras.all, list(self._dedicated.values())
        checks = await asyncio.gather(*(upstream.check() for upstream in shared))
        servers = tuple(
            ServerStatus(
                "stateless" if upstream.is_stateless else "handshake", state, max(0, upstream.starts - 1), cause
            )
            for upstream, (state, cause) in zip(shared, checks, strict=True)
        )
        return Snapshot(
            name=self.name,
            servers=servers,
            in_flight=sum(len(upstream.in_flight) for upstream in (*shared, *dedicated)),
            sessions=sessions,
            children=len(dedicated),
            children_down=sum(not upstream.is_ready() for upstream in dedicated),
            unattributed=self._router.unattributed.total(),
        )

    async def _check_health(self) -> tuple[str, Mapping[str, Json]]:
        now = await self.snapshot()
        servers = [replace(server, cause="".join(server.cause.splitlines()[:1])[:200]) for server in now.servers]
        return now.state, {"servers": msgspec.to_builtins(servers)}

    def _with_pages(self, app: "App") -> "Asgi":
        """Return the app with the pages that are enabled."""
        from jackstay.proxy._pages import METRICS_PATH, STATUS_PATH, Pages  # noqa: PLC0415  # only over HTTP

        async def page(render: Callable[[Report, Snapshot], str]) -> str:
            return render(self._report, await self.snapshot(app.sessions))

        options = self.proxy_options
        rows = {METRICS_PATH: (options.metrics, metrics_text), STATUS_PATH: (options.status, status_page)}
        return Pages(app, {path: partial(page, render) for path, (is_served, render) in rows.items() if is_served})

    def _keep_stderr(self, line: str) -> None:
        logging.getLogger(f"jackstay.server.{self._target.name}").info("%s", line)
        self._report.keep_line(line)

    # --- declarations -------------------------------------------------------------------------------------------------

    def _current_config(self) -> tuple[ServerConfig, frozenset[str]]:
        """Return what a new connection declares: what the upstream server declares."""
        first = self._eras.first
        if self._mirror is not None and (first is None or not first.starts):
            return super()._current_config()  # a mounted server that could not be started yet
        return self._config_for(self._eras.facts(Era.HANDSHAKE), self._eras.facts(Era.STATELESS))

    def _param_headers(self, tool: str) -> "Sequence[ParamHeader]":
        """Return the arguments of this tool that HTTP clients also send as headers, by the forwarded tool list."""
        first = self._eras.first
        return () if first is None else first.lists.param_headers.get(tool, ())

    def _make_config(self, handshake: ServerFacts, facts: ServerFacts) -> tuple[ServerConfig, frozenset[str]]:
        """Return what the proxy declares for what the server declares in each era."""
        is_dedicated = self.proxy_options.per_client
        capabilities, names = downstream_capabilities(handshake.capabilities, is_dedicated=is_dedicated)
        stateless, stateless_names = downstream_capabilities(facts.capabilities, is_dedicated=is_dedicated)
        nameless = encode_json({"name": self.name, "version": "0"})
        core = ServerOptions(
            server_info=nameless if facts.info == b"{}" else facts.info,
            capabilities=capabilities,
            stateless_capabilities=stateless,
            instructions=facts.instructions,
            max_concurrent=self.options.max_concurrent,
            max_frame_bytes=self.options.max_frame_bytes,
            drain_timeout=self._handler_drain,
        )
        return ServerConfig(core), names | stateless_names

    def _make_connection(self, config: Any) -> Connection:
        return DownstreamConnection(config, self)

    # --- clients ------------------------------------------------------------------------------------------------------

    def _remove_connection(self, connection: Driver) -> None:
        """Remove a closed connection, with its subscriptions and its dedicated server."""
        super()._remove_connection(connection)
        self._router.forget(connection)
        upstream = self._dedicated.pop(connection.number, None)
        if upstream is not None:
            upstream.owner = None
            upstream.stop_in_background(self._stopping)
        self._shared.pop(connection.number, None)
        for shared in self._eras.all:
            shared.forget(connection.number)

    def session_clients(self, upstream: Upstream) -> list[Driver]:
        """Return the clients of a shared server that can receive requests and notifications outside a call."""
        if self.proxy_options.per_client:
            return []  # clients with a session have dedicated servers
        return [
            connection
            for connection in (self._connections.values() if self._mirror is None else clients_of(self))
            if connection.core.client is not None and self._find_shared(connection, is_stateless=False) is upstream
        ]

    def _notify_subscribers(self, upstream: Upstream, method: str, uri: str, params: bytes) -> None:
        """Notify the clients of a shared server that subscribed to this change."""
        if self._mirror is not None:
            self._mirror.changed(upstream, method, uri, params)
        for connection in list(self._connections.values()):
            is_stateless = connection.core.client is None
            if self.proxy_options.per_client and not is_stateless:
                continue  # it has a dedicated server
            if self._find_shared(connection, is_stateless=is_stateless) is upstream:
                connection.call(connection.changed, method, uri, params)

    def _find_shared(self, connection: Driver, *, is_stateless: bool) -> Upstream:
        found = self._shared.get(connection.number)
        if found is None:
            found = self._eras.find(is_stateless=is_stateless)
            if connection.number in self._connections and connection.core.version is not None:
                self._shared[connection.number] = found
        return found

    def _find(self, connection: Driver, *, is_stateless: bool) -> Upstream:
        """Return the server for this client. Raises: BackpressureError if there are too many dedicated servers."""
        client = connection.core.client
        if not self.proxy_options.per_client or client is None or connection.number not in self._connections:
            return self._find_shared(connection, is_stateless=is_stateless)
        upstream = self._dedicated.get(connection.number)
        if upstream is None:
            children = len(self._dedicated) + len(self._stopping)  # a server that is being stopped is still a process
            if children >= self.proxy_options.max_children:
                raise BackpressureError(f"too many dedicated servers: the limit is {self.proxy_options.max_children}")
            upstream = self._dedicated[connection.number] = self._make(
                Era.HANDSHAKE if self._eras.is_dual else None,
                connection,
                capabilities=msgspec.json.decode(client.capabilities),
                client_info=msgspec.json.decode(client.info),
            )
            upstream.start()
        return upstream

    def _make(self, era: Era | None, owner: Driver | None = None, **settings: Any) -> Upstream:
        """Return a new connection to the server, limited to one era if an era is given."""
        settings = {**self._settings, "capabilities": ALL_CAPABILITIES, **settings}
        return Upstream(self._target, settings, self, era, owner)

    # --- mounted in another server ------------------------------------------------------------------------------------

    def _make_mount(self, host: Server, prefix: str, separator: str) -> "Mount":
        from jackstay.proxy._mount import ProxyMount  # noqa: PLC0415  # most proxies are not mounted

        self._mirror_lists()
        return ProxyMount(host, self, prefix, separator)

    def _mirror_lists(self) -> None:
        """Keep the lists of the upstream server in the catalogue, and start even if the server cannot be started."""
        from jackstay.proxy._mirror import Mirror  # noqa: PLC0415  # most proxies are not mounted

        if self._mirror is None:
            self._relay.server_name = self.name
            self._mirror = Mirror(self.name, self.catalogue, self._eras, self._notify_mounts)
            self.options = replace(self.options, capabilities=CAPABILITIES)

    def _notify_mounts(self, method: str, uri: str = "", params: bytes = b"") -> None:
        for mount in self._mounted_in:
            mount.changed(method, uri, params)

    def _changed(self, kind: Kind) -> None:
        """The mirror has changed. The clients of the proxy itself are notified by the router."""
        self._notify_mounts(CHANGES[kind])

    # --- events of the upstream servers -------------------------------------------------------------------------------

    def state_changed(self, upstream: Upstream) -> None:
        """The server became ready, or was lost."""
        if self._mirror is not None:
            self._mirror.state_changed(upstream)

    def reconnected(self, upstream: Upstream) -> None:
        """The server is ready again: notify clients of lists that have changed."""
        self._eras.reconnected(upstream)
        upstream.run_in_background(self._notify_list_changes(upstream))

    async def _notify_list_changes(self, upstream: Upstream) -> None:
        for method in await upstream.lists.changed(upstream.fetch, upstream.is_ready):
            self._router.changed(upstream, method)
