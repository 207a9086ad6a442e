"""`Proxy`: a server whose requests are served by another, over whatever carries either.

It is a `Server` to whoever runs or mounts it: `run()`, `serve()`, `asgi()`. What it offers is what the server behind offers, told
in that server's words. The server behind is one for all clients; with `per_client`, one more for each that has a session.

Above: the command, users. Below: `_relay` (requests), `_asking` and `_news` (what the server says), `_back` (the server).
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from jackstay.errors import BackpressureError, Json
from jackstay.protocol import VERSIONS, Era
from jackstay.protocol.client import ServerFacts
from jackstay.protocol.server import ServerOffer, ServerOptions
from jackstay.proxy._asking import Asking
from jackstay.proxy._back import Back, of_era
from jackstay.proxy._bodies import front_capabilities
from jackstay.proxy._eras import Eras
from jackstay.proxy._flights import Flight
from jackstay.proxy._front import FrontConnection
from jackstay.proxy._news import News
from jackstay.proxy._options import KEEPALIVE, ProxyOptions
from jackstay.proxy._relay import Relay
from jackstay.proxy._report import Report, ServerStatus, Snapshot, metrics_text, status_page
from jackstay.server import Connection, Driver, Server
from jackstay.transport import StdioTarget, Target, kill_children
from jackstay.types import encode_json

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader
    from jackstay.proxy._pages import Page
    from jackstay.server import Handlers
    from jackstay.server.http import App, Asgi, Guard, HttpKeywords, RunHttpKeywords

logger = logging.getLogger("jackstay.proxy")

# What may be asked of a server that is shared is what the client of each call declared; to begin with it is all there is.
EVERYTHING: dict[str, Any] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}

# Over stdio the end takes 1.5 s at most: so long for calls, and so long for each step of ending the child.
STDIO_DRAIN = 0.7
STDIO_CLOSE_STEP = 0.12

# Over HTTP nobody waits for the end of our process, and a child may take its time: three steps, and one to spare.
HTTP_DRAIN = 1.0
HTTP_CLOSE_STEP = 2.0
HTTP_END = HTTP_DRAIN + 4 * HTTP_CLOSE_STEP


class Proxy(Server):
    """A server in front of `target`. `options` are those of `ProxyOptions`; `settings` are those of `connect()`.

    `prepare` is awaited before the target is opened for the first time.

    Raises: UsageError for an option or setting that is unknown or out of range.
    """

    def __init__(
        self,
        target: Target,
        options: ProxyOptions | None = None,
        *,
        settings: dict[str, Any] | None = None,
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(target.name or "proxy")
        self.proxy_options = ProxyOptions() if options is None else options
        self._report = Report()
        self._settings = {
            "busy": "wait",
            "max_pending": 4096,
            "keepalive": KEEPALIVE,
            **(settings or {}),
        }
        self._target = target
        if self.proxy_options.status and isinstance(target, StdioTarget) and "stderr" not in self._settings:
            self._target = target.with_stderr(self._keep_stderr)
        self._prepare = prepare
        self._handler_drain = HTTP_DRAIN
        self._eras = Eras(
            lambda era: self._make(EVERYTHING, None, era),
            has_handshake=self._has_handshake,
            is_temporary=self.proxy_options.per_client,
        )
        self._own: dict[int, Back] = {}
        self._owners: dict[Back, Driver] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._lasting: dict[int, Driver] = {}
        # The shared server of each client that stays: it is not changed while the client is there.
        self._shared: dict[int, Back] = {}
        self._offering: tuple[tuple[ServerFacts, ServerFacts], tuple[ServerOffer, frozenset[str]]] | None = (
            None
        )
        self._asking = Asking(self._owners.get, self.lasting)
        self._news = News(self._tell_clients, self._owners.get, self.lasting, self._asking.sent_away)
        self._relay = Relay(self._find, self._owners.__contains__, self.lasting, self._asking, self._report)
        self.on_startup(self._open)

    def __repr__(self) -> str:
        return f"<Proxy {self._eras!r}, {len(self._own)} for one client each>"

    @property
    def _has_handshake(self) -> bool:
        return bool(of_era(self._settings.get("versions", VERSIONS), Era.HANDSHAKE))

    @property
    def handlers(self) -> "Handlers":
        """Who serves the requests."""
        return self._relay

    # --- its life -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the server behind. `run()` does it; who brings his own loop does it before he serves.

        Raises: why it cannot be started, after one attempt.
        """
        await self.startup()

    async def _open(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        await self._eras.open()

    async def before_handshake(self) -> None:
        """Find out what the server declares to clients with a handshake, before the first of them gets its answer."""
        await self._eras.prepare_handshake()

    async def end_serving(self) -> None:
        """End the servers behind."""
        self._asking.stop()
        await asyncio.gather(*(back.stop() for back in self._own.values()), self._eras.stop(), *self._leaving)

    def run(
        self,
        *,
        transport: str = "stdio",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        leave: Callable[[int], object] = os._exit,
        around: "Callable[[App], Asgi] | None" = None,
        **options: "Unpack[RunHttpKeywords]",
    ) -> int:
        """As `Server.run`. Over HTTP with sessions, unless it is said otherwise: clients are asked and told in them.

        Raises: as that, and why the server behind cannot be started.
        """
        if transport == "stdio":
            self._settings.setdefault("close_step", STDIO_CLOSE_STEP)
            self._handler_drain = STDIO_DRAIN
            self._eras.has_one_client = True
        else:
            self._settings.setdefault("close_step", HTTP_CLOSE_STEP)
            self.options = msgspec.structs.replace(self.options, drain_timeout=HTTP_END)
            options.setdefault("sessions", True)

        def leave_nothing(code: int) -> object:
            kill_children()  # a second signal, or the time is over: nobody waits for them any more
            return leave(code)

        def with_pages(app: "App") -> "Asgi":
            from jackstay.proxy._pages import Pages  # noqa: PLC0415  # over HTTP alone

            return Pages(app, self._pages(app))

        return super().run(
            transport=transport,
            loop_factory=loop_factory,
            leave=leave_nothing,
            around=with_pages if around is None else around,
            **options,
        )

    def asgi(self, *, guard: "Guard | None" = None, **options: "Unpack[HttpKeywords]") -> "App":
        """As `Server.asgi`, with sessions unless it is said otherwise. `await open()` first, and `shutdown()` in the end."""
        options.setdefault("sessions", True)
        app = super().asgi(guard=guard, **options)
        app.check_health_with(self._check_health)
        return app

    # --- how it is ----------------------------------------------------------------------------------------------------

    async def snapshot(self, sessions: int = 0) -> Snapshot:
        """How the servers are now; each is checked, which takes two seconds if one does not answer."""
        shared, own = self._eras.all, list(self._own.values())
        checks = await asyncio.gather(*(back.check() for back in shared))
        servers = tuple(
            ServerStatus(
                "stateless" if back.is_stateless else "handshake", state, max(0, back.starts - 1), cause
            )
            for back, (state, cause) in zip(shared, checks, strict=True)
        )
        return Snapshot(
            name=self.name,
            servers=servers,
            in_flight=sum(len(back.flights) for back in (*shared, *own)),
            sessions=sessions,
            children=len(own),
            children_down=sum(not back.is_there() for back in own),
        )

    async def _check_health(self) -> tuple[str, Mapping[str, Json]]:
        now = await self.snapshot()
        servers: list[Json] = [
            {
                "era": one.era,
                "state": one.state,
                "restarts": one.restarts,
                "cause": one.cause.splitlines()[0][:200],
            }
            if one.cause
            else {"era": one.era, "state": one.state, "restarts": one.restarts}
            for one in now.servers
        ]
        return now.state, {"servers": servers}

    def _pages(self, app: "App") -> "dict[str, Page]":
        from jackstay.proxy._pages import METRICS_PATH, STATUS_PATH  # noqa: PLC0415  # over HTTP alone

        async def metrics() -> str:
            self._report.unattributed = self._asking.refused + self._news.dropped
            return metrics_text(self._report, await self.snapshot(app.sessions))

        async def status() -> str:
            return status_page(self._report, await self.snapshot(app.sessions))

        options = self.proxy_options
        pages: dict[str, Page] = {METRICS_PATH: metrics} if options.metrics else {}
        return {**pages, STATUS_PATH: status} if options.status else pages

    def _keep_stderr(self, line: str) -> None:
        logging.getLogger(f"jackstay.server.{self._target.name}").info("%s", line)
        self._report.keep_line(line)

    # --- what it offers -----------------------------------------------------------------------------------------------

    def offering(self) -> tuple[ServerOffer, frozenset[str]]:
        """What a connection that begins now is told: what the server behind says of itself."""
        facts = self._eras.facts(Era.HANDSHAKE), self._eras.facts(Era.STATELESS)
        known = self._offering
        if known is None or known[0][0] is not facts[0] or known[0][1] is not facts[1]:
            known = self._offering = facts, self._offer(*facts)
        return known[1]

    def param_headers(self, tool: str) -> "Sequence[ParamHeader]":
        """Which arguments of this tool HTTP clients say in headers, too, by the list that clients were given."""
        first = self._eras.first
        return () if first is None else first.lists.param_headers.get(tool, ())

    def _offer(self, handshake: ServerFacts, facts: ServerFacts) -> tuple[ServerOffer, frozenset[str]]:
        is_own = self.proxy_options.per_client
        capabilities, names = front_capabilities(handshake.capabilities, is_own=is_own)
        stateless, stateless_names = front_capabilities(facts.capabilities, is_own=is_own)
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
        return ServerOffer(core), names | stateless_names

    def _make_connection(self, terms: Any) -> Connection:
        return FrontConnection(terms, self.before_handshake, self.offering)

    # --- its clients --------------------------------------------------------------------------------------------------

    def remember(self, connection: Driver) -> None:
        """A client has come that stays."""
        super().remember(connection)
        self._lasting[connection.number] = connection

    def forget(self, connection: Driver) -> None:
        """It is gone."""
        super().forget(connection)
        self._lasting.pop(connection.number, None)
        self._asking.forget(connection)
        back = self._own.pop(connection.number, None)
        if back is not None:
            del self._owners[back]
            task = asyncio.get_running_loop().create_task(back.stop())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        self._shared.pop(connection.number, None)
        for shared in self._eras.all:
            shared.forget(connection.number)

    def lasting(self, back: Back) -> list[Driver]:
        """The clients of a shared server that have a session: requests and notifications reach them outside a call."""
        if self.proxy_options.per_client:
            return []  # these have a server of their own
        return [
            one
            for one in self._lasting.values()
            if one.core.client is not None and self._find_shared(one, is_stateless=False) is back
        ]

    def _tell_clients(self, back: Back, method: str, uri: str, params: bytes) -> None:
        """Notify those clients of a shared server that subscribed to this change."""
        for one in list(self._lasting.values()):
            is_stateless = one.core.client is None
            if self.proxy_options.per_client and not is_stateless:
                continue  # it has a server of its own
            if self._find_shared(one, is_stateless=is_stateless) is back:
                one.call(one.changed, method, uri, params)

    def _find_shared(self, connection: Driver, *, is_stateless: bool) -> Back:
        found = self._shared.get(connection.number)
        if found is None:
            found = self._eras.find(is_stateless=is_stateless)
            if connection.number in self._lasting and connection.core.version is not None:
                self._shared[connection.number] = found
        return found

    def _find(self, connection: Driver, *, is_stateless: bool) -> Back:
        """The server that serves this client. Raises: BackpressureError, if there are too many of them."""
        client = connection.core.client
        if not self.proxy_options.per_client or client is None or connection.number not in self._lasting:
            return self._find_shared(connection, is_stateless=is_stateless)
        back = self._own.get(connection.number)
        if back is None:
            children = len(self._own) + len(self._leaving)  # one that is being ended is still a process
            if children >= self.proxy_options.max_children:
                raise BackpressureError(f"{children} clients have a server of their own already")
            back = self._own[connection.number] = self._make(
                msgspec.json.decode(client.capabilities),
                msgspec.json.decode(client.info),
                Era.HANDSHAKE if self._eras.is_dual else None,
            )
            self._owners[back] = connection
            back.begin()
        return back

    def _make(self, capabilities: dict[str, Any], info: dict[str, Any] | None, era: Era | None) -> Back:
        settings = {**self._settings, "capabilities": capabilities}
        if info is not None:
            settings["client_info"] = info
        return Back(self._target, settings, self.proxy_options, self, era)

    # --- what a server behind says ------------------------------------------------------------------------------------

    def came_back(self, back: Back) -> None:
        """It is there again, and may be another than before."""
        self._eras.came_back(back)
        back.do_later(self._tell_changes(back))

    async def _tell_changes(self, back: Back) -> None:
        for method in await back.lists.changed(back.fetch, back.is_there):
            self._news.changed(back, method)

    def heard(self, back: Back, method: str, params: bytes, flight: Flight | None) -> None:
        """It sent this notification; in the response to that call, where that is known."""
        self._news.heard(back, method, params, flight)

    async def asked(self, back: Back, method: str, params: bytes, flight: Flight | None) -> bytes:
        """It sent this request. Raises: JsonRpcError."""
        return await self._asking.asked(back, method, params, flight)
