"""`Server`: what an author holds. Functions go in by decorators, connections are served from it.

It joins the parts and knows none of their rules: the catalogue holds what is offered, the dispatch serves it, a connection
drives one client, `_run` owns the process. One server may have many connections at once; what changes in its catalogue, from
whatever thread, is told to each of them.

Above: authors, the commands, the applications. Below: everything else in this room.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from jackstay.errors import Json, UsageError
from jackstay.server._catalogue import CHANGES, Catalogue, Kind
from jackstay.server._entries import check_function, refuse_name
from jackstay.server._lifetime import Lifetime
from jackstay.server._options import make_options
from jackstay.server._pool import Pool
from jackstay.server._registration import (
    make_completion,
    make_prompt,
    make_ready_tool,
    make_resource,
    make_tool,
)
from jackstay.server._telemetry import Listener, Telemetry

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader
    from jackstay.protocol.server import ServerOffer
    from jackstay.server._changes import ChangeBus
    from jackstay.server._connection import Connection
    from jackstay.server._dispatch import Dispatch, Middleware, OnInvalidArguments
    from jackstay.server._driver import Driver, Handlers, Terms
    from jackstay.server._entries import IconLike
    from jackstay.server._registration import (
        AddedToolKeywords,
        PromptKeywords,
        ResourceKeywords,
        ToolKeywords,
    )
    from jackstay.server._rounds import KeyRing
    from jackstay.server._tools import ToolEntry
    from jackstay.server.http import App, Asgi, Guard, HttpKeywords, RunHttpKeywords
    from jackstay.transport import Target
    from jackstay.types import PromptReference, ResourceTemplateReference

logger = logging.getLogger("jackstay.server")

F = TypeVar("F", bound=Callable[..., Any])

# What is left for shutdown hooks over stdio when handlers are done: the time that those and the last writes did not need.
STDIO_FLUSH = 0.25


class ServerKeywords(TypedDict, total=False):
    """The options of a server; `docs/server.md` explains each."""

    title: str | None
    description: str | None
    website_url: str | None
    icons: Sequence[IconLike] | None
    versions: tuple[str, ...]
    offers: tuple[str, ...]
    strict: bool
    max_concurrent: int
    max_frame_bytes: int
    drain_timeout: float
    shutdown_timeout: float
    threads: int
    page_size: int
    ttl_ms: int
    cache_scope: str
    keys: tuple[bytes, ...]
    round_timeout: float


class Server:
    """An MCP server. Register functions, then `run()` it, or `serve()` connections of your own making.

    Raises: UsageError for an option that is unknown or out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        instructions: str = "",
        middleware: Sequence[Middleware] = (),
        on_invalid_arguments: OnInvalidArguments | None = None,
        changes: ChangeBus | None = None,
        **options: Unpack[ServerKeywords],
    ) -> None:
        self.options = make_options(name=name, version=version, instructions=instructions, **options)
        self.catalogue = Catalogue(self.options.for_catalogue(), self._changed)
        self._pool = Pool(self.options.threads)
        self._lifetime = Lifetime()
        self._telemetry = Telemetry(name)
        self._ring: KeyRing | None = None
        self._middleware: tuple[Middleware, ...] = ()
        self._on_invalid_arguments = on_invalid_arguments
        for one in (middleware,) if callable(middleware) else middleware:
            self.add_middleware(one)
        if on_invalid_arguments is not None:
            check_function(on_invalid_arguments, "on_invalid_arguments")
            if inspect.iscoroutinefunction(on_invalid_arguments):
                said = "on_invalid_arguments must be a plain function: its answer is not waited for"
                raise UsageError(said, path="on_invalid_arguments")
        # Set by `run()`: called, from any thread, when the client at stdio has gone; True while startup hooks still run.
        self.on_stdio_ending: Callable[[bool], None] | None = None
        self._lock = threading.Lock()
        self._connections: dict[int, Driver] = {}
        self._numbers = itertools.count(1)
        self._offers: dict[frozenset[str], ServerOffer] = {}
        self._offerings: dict[tuple[bool, ...], tuple[ServerOffer, frozenset[str]]] = {}
        self._apps: weakref.WeakSet[App] = weakref.WeakSet()
        # What workers tell each other of changes by; None: this process is all there is.
        self._changes = changes
        if changes is not None:
            changes.listen(self._tell_here)
        # Silent unless somebody listens, as a library should be; not when it is imported, which changes nothing.
        ours = logging.getLogger("jackstay")
        if not ours.handlers:
            ours.addHandler(logging.NullHandler())

    @cached_property
    def dispatch(self) -> Dispatch:
        """Who serves the requests. What it needs is loaded with the first connection, not with the name `Server`."""
        from jackstay.server._dispatch import Dispatch  # noqa: PLC0415  # as it says

        dispatch = Dispatch(
            self.catalogue,
            self._pool,
            ring=self._key_ring,
            round_timeout=self.options.round_timeout,
            on_invalid_arguments=self._on_invalid_arguments,
        )
        dispatch.middleware = self._middleware
        return dispatch

    @property
    def handlers(self) -> Handlers:
        """Who serves the requests of every connection: the dispatch. A server that passes requests on has its own here."""
        return self.dispatch

    def __repr__(self) -> str:
        return f"<Server {self.options.name} {self.catalogue!r} {len(self._connections)} connections>"

    @property
    def name(self) -> str:
        """What it is called."""
        return self.options.name

    # --- registering --------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolKeywords]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolKeywords]) -> F | Callable[[F], F]:
        """Offer a function as a tool: `@server.tool` or `@server.tool(read_only=True)`. The function is returned.

        Raises: UsageError, naming the function, the parameter and the reason.
        """

        def register(call: F) -> F:
            self.catalogue.add_tools(make_tool(call, options))
            return call

        refuse_name(function, "tool")
        return register if function is None else register(function)

    def add_tool(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Json],
        handler: Callable[..., object],
        output_schema: Mapping[str, Json] | None = None,
        validate: bool = True,
        replace: bool = False,
        **options: Unpack[AddedToolKeywords],
    ) -> None:
        """Offer a tool with a ready schema. `handler` takes the arguments as a dict, and the context if it can.

        Raises: UsageError for a schema that cannot be used, a name that is taken (unless `replace`), a missing extra.
        """
        entry = make_ready_tool(handler, name, (input_schema, output_schema), options, validate=validate)
        self.catalogue.add_tools(entry, replace=replace)

    def ready_tool(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Json],
        handler: Callable[..., object],
        output_schema: Mapping[str, Json] | None = None,
        validate: bool = True,
        **options: Unpack[AddedToolKeywords],
    ) -> ToolEntry:
        """A tool as `add_tool` would offer it, not offered yet: `server.catalogue.add_tools(*entries)` offers many at once.

        Raises: UsageError, as `add_tool`.
        """
        return make_ready_tool(handler, name, (input_schema, output_schema), options, validate=validate)

    def resource(self, uri: str, **options: Unpack[ResourceKeywords]) -> Callable[[F], F]:
        """Offer what a function returns as a resource; variables in braces are its parameters.

        Raises: UsageError, where variables and parameters do not match.
        """
        if not isinstance(uri, str):  # `@server.resource` without its words
            raise UsageError('resource takes a URI: @server.resource("notes://all")', path="uri")

        def register(call: F) -> F:
            self.catalogue.add_resources(make_resource(uri, call, options))
            return call

        return register

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptKeywords]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Unpack[PromptKeywords]) -> F | Callable[[F], F]:
        """Offer what a function returns as a prompt: `@server.prompt` or `@server.prompt(title="...")`.

        Raises: UsageError for a parameter that a string cannot say.
        """

        def register(call: F) -> F:
            self.catalogue.add_prompts(make_prompt(call, options))
            return call

        refuse_name(function, "prompt")
        return register if function is None else register(function)

    def completion(
        self,
        of: str | PromptReference | ResourceTemplateReference,
        argument: str,
        *,
        blocking: bool | None = None,
    ) -> Callable[[F], F]:
        """Complete an argument of a prompt (by its name) or a variable of a template (by its text, with the braces).

        Raises: UsageError for a function that takes anything but `(typed)` or `(typed, settled)`.
        """

        def register(call: F) -> F:
            self.catalogue.add_completion(make_completion(of, argument, call, blocking))
            return call

        return register

    def remove_tool(self, *names: str) -> None:
        """Offer these tools no longer. Raises: UsageError for one that is not there."""
        self.catalogue.remove_tools(*names)

    def remove_resource(self, *uris: str) -> None:
        """Offer these resources and templates no longer. Raises: UsageError for one that is not there."""
        self.catalogue.remove_resources(*uris)

    def remove_prompt(self, *names: str) -> None:
        """Offer these prompts no longer. Raises: UsageError for one that is not there."""
        self.catalogue.remove_prompts(*names)

    def add_middleware(self, middleware: Middleware) -> None:
        """Put this around every request, inside what was added before. Raises: UsageError for what is no function."""
        check_function(middleware, "middleware")
        self._middleware = (*self._middleware, middleware)
        if "dispatch" in self.__dict__:
            self.dispatch.middleware = self._middleware

    def on_startup(self, hook: F) -> F:
        """Call this, sync or async, once before anybody is served, however that is done. A decorator."""
        check_function(hook, "on_startup")
        self._lifetime.startup_hooks.append(hook)
        return hook

    def on_shutdown(self, hook: F) -> F:
        """Call this, sync or async, once when nobody is served any more. A decorator."""
        check_function(hook, "on_shutdown")
        self._lifetime.shutdown_hooks.append(hook)
        return hook

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event; call what is returned to end that."""
        check_function(listener, "subscribe")
        return self._telemetry.subscribe(listener)

    # --- telling clients ----------------------------------------------------------------------------------------------

    def notify_resource_updated(self, uri: str) -> None:
        """Tell everyone who subscribed to this resource that it changed. From any thread."""
        self._tell("notifications/resources/updated", uri)

    def tell(self, method: str, uri: str = "", params: bytes = b"") -> None:
        """Tell every client of this process that wants to hear of it: a list that changed, or the resource at `uri`.

        `params` are sent as they are, where there are any. From any thread.
        """
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            connection.call(connection.changed, method, uri, params)

    def _changed(self, kind: Kind) -> None:
        self._tell(CHANGES[kind], "")

    def _tell(self, method: str, uri: str) -> None:
        if self._changes is None:
            self._tell_here(method, uri)
        else:
            self._changes.publish(method, uri)

    def _tell_here(self, method: str, uri: str) -> None:
        self.tell(method, uri)

    # --- serving ------------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        transport: str = "stdio",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        leave: Callable[[int], object] = os._exit,
        around: Callable[[App], Asgi] | None = None,
        **options: Unpack[RunHttpKeywords],
    ) -> int:
        """Serve stdio until the client is gone, or HTTP (`transport="http"`), until a signal ends it; the exit code.

        It owns the process meanwhile: SIGINT, SIGTERM and SIGHUP drain, a second one ends at once. If a thread still
        runs at the end, the process ends here, after everything was flushed: a client does not wait for hung tools.
        The options are those of HTTP: `host`, `port`, `workers` and so on, and all of `asgi()`.
        `leave(code)` is how the process ends where something still runs. `around(app)` gives the ASGI app that is served
        in the place of the endpoint's: one that answers other paths itself, and hands the rest on.

        Raises: UsageError inside a running loop, where `await server.serve_stdio()` or `server.asgi()` is the way; for
        an option that is unknown or out of range. TransportError, if it cannot be listened there.
        """
        from jackstay.server._run import run  # noqa: PLC0415  # signals: only who runs a process needs them

        if transport == "stdio" and not options:
            return run(self, loop_factory, leave)
        if transport != "http":
            wrong = f"transport must be stdio or http, not {transport!r}" if transport != "stdio" else ""
            raise UsageError(
                wrong or f'{", ".join(sorted(options))}: for transport="http" only', path="transport"
            )
        from jackstay.server.http import run_http  # noqa: PLC0415  # only who speaks HTTP loads it

        return run_http(self, options, loop_factory=loop_factory, leave=leave, around=around)

    def share_keys(self, keys: tuple[bytes, ...]) -> None:
        """Seal request states with these, where the server was made without keys of its own: workers share theirs."""
        from jackstay.server._rounds import KeyRing  # noqa: PLC0415  # loads hmac; most servers never ask

        if not self.options.keys:
            self._ring = KeyRing(keys)

    @property
    def blocking_calls(self) -> int:
        """How many blocking functions run in threads now."""
        return self._pool.busy + self._lifetime.pool.busy

    @property
    def hooks_timeout(self) -> float:
        """What the shutdown hooks may take, other than over stdio; 0 where there are none."""
        return self.options.shutdown_timeout if self._lifetime.shutdown_hooks else 0.0

    def asgi(self, *, guard: Guard | None = None, **options: Unpack[HttpKeywords]) -> App:
        """An ASGI 3 app that serves this server over HTTP, both eras at one URL: for uvicorn, or to mount anywhere.

        Raises: UsageError for an option that is unknown or out of range.
        """
        from jackstay.server.http import App, make_http_options  # noqa: PLC0415  # only who speaks HTTP loads it

        app = App(self, make_http_options(**options), guard)
        self._apps.add(app)
        return app

    async def serve_stdio(self, framing: str = "lines") -> int:
        """Serve this process's stdin and stdout until the client is gone. Never ends the process.

        Returns how many blocking functions still run in threads; they cannot be stopped, and are reported.

        Raises: TransportError, if stdio is taken or closed.
        """
        from jackstay.transport import own_stdio  # noqa: PLC0415  # loaded, and named where it is used

        target = own_stdio(framing)
        ended_at: list[float] = []

        def ends() -> None:
            is_starting = self._lifetime.is_starting
            if not is_starting:
                ended_at.append(time.monotonic())
            if self.on_stdio_ending is not None:
                self.on_stdio_ending(is_starting)

        target.on_end_of_input = ends
        with target.held():  # what hooks print is no more for the client than what tools print
            if await self.startup(target):
                if target.has_input_ended:
                    ends()
                await self._serve(target, ends)
            since = time.monotonic() - ended_at[0] if ended_at else 0.0
            await self.shutdown(target, self.options.drain_timeout + STDIO_FLUSH - since)
        left = self.blocking_calls
        if left:
            logger.warning("%d blocking functions still run in threads", left)
        return left

    async def serve(self, target: Target) -> None:
        """Serve one connection until it ends: one end of a `memory_pair()`, or any other transport.

        Startup hooks run before the first of several that overlap, shutdown hooks after the last. Cancelling ends it at once.

        Raises: TransportError, if it cannot be opened; UsageError for what is no target; what a startup hook raises.
        """
        if not hasattr(target, "open"):
            raise UsageError(f"serve takes one end, as memory_pair().server, not {target!r}", path="target")
        user = object()
        is_up = await self.startup(user)
        try:
            if is_up:
                await self._serve(target, None)
        finally:
            await self.shutdown(user)

    async def _serve(self, target: Target, on_draining: Callable[[], None] | None) -> None:
        connection = self.open_connection()
        connection.on_draining = on_draining
        try:
            await connection.open(target)
            await connection.closed.wait()
        except asyncio.CancelledError:
            connection.stop()
            await connection.closed.wait()
            raise
        finally:
            self.forget(connection)
            if not self._connections:
                self._pool.release()  # requests over HTTP may still wait for a thread: they are no connection

    def open_connection(self) -> Connection:
        """A connection on the running loop, for whoever brings the transport; `forget()` it in the end."""
        from jackstay.server._driver import Terms  # noqa: PLC0415  # see `dispatch`

        offer, offered = self.offering()
        terms = Terms(offer, offered, self.handlers, self._telemetry, self.next_number())
        connection = self._make_connection(terms)
        self.remember(connection)
        return connection

    def _make_connection(self, terms: Terms) -> Connection:
        from jackstay.server._connection import Connection  # noqa: PLC0415  # see `dispatch`

        return Connection(terms)

    async def before_handshake(self) -> None:
        """Awaited before an `initialize` over HTTP is answered; `offering()` is called afterwards."""

    def remember(self, connection: Driver) -> None:
        """Tell this connection of changes, and end it with the server; `forget()` it in the end."""
        with self._lock:
            self._connections[connection.number] = connection

    def forget(self, connection: Driver) -> None:
        """A connection is over."""
        with self._lock:
            self._connections.pop(connection.number, None)

    def join(self, user: Hashable) -> bool:
        """As `startup()`, without waiting. False: there are hooks to wait for."""
        return self._lifetime.join(user)

    async def startup(self, user: Hashable = None) -> bool:
        """Run the startup hooks, one after the other, unless the server is served already. For programs that serve.

        Each call with a `user` is matched by a `shutdown()` with the same. False: it is to end before it has begun.

        Raises: what a hook raises. With the next attempt that hook runs again, and those before it do not.
        """
        return await self._lifetime.enter(user)

    def stop_starting(self) -> None:
        """Whatever startup still waits for is not wanted any more."""
        self._lifetime.stop_starting()

    def drain(self) -> None:
        """End every connection: no new requests, and running ones get their time. From any thread."""
        self._lifetime.stop_starting_threadsafe()
        with self._lock:
            connections = list(self._connections.values())
        for app in list(self._apps):
            app.refuse_new()
        for connection in connections:
            connection.call(connection.drain)

    async def shutdown(self, user: Hashable = None, timeout: float | None = None) -> None:
        """Run the shutdown hooks, and let the pools go; with a `user`, if it was the last for whom `startup()` was called.

        The hooks have `timeout` seconds together, `shutdown_timeout` unless it is given.
        """
        budget = self.options.shutdown_timeout if timeout is None else timeout
        if await self._lifetime.leave(user, budget, self.end_serving):
            self._pool.close()
            self._lifetime.pool.close()

    async def end_serving(self) -> None:
        """Called before the shutdown hooks: for servers that own something themselves."""

    @property
    def telemetry(self) -> Telemetry:
        """Who listens to what happens here; for connections."""
        return self._telemetry

    def next_number(self) -> int:
        """What the next connection is called. From any thread."""
        return next(self._numbers)

    def offering(self) -> tuple[ServerOffer, frozenset[str]]:
        """What a connection that begins now is told, and what it is offered."""
        catalogue = self.catalogue
        key = (
            bool(catalogue.tools),
            bool(catalogue.resources or catalogue.templates),
            bool(catalogue.prompts),
            bool(catalogue.completions),
        )
        found = self._offerings.get(key)
        if found is None:
            offered = self._offered()
            found = self._offerings[key] = self.offer_of(offered), offered
        return found

    def param_headers(self, tool: str) -> Sequence[ParamHeader]:
        """Which arguments of this tool HTTP clients say in headers, too; none for one that is not here."""
        entry = self.catalogue.tools.get(tool)
        return () if entry is None else entry.param_headers

    def offer_of(self, offered: frozenset[str]) -> ServerOffer:
        """What clients are told of a server that offers this much. Made once."""
        offer = self._offers.get(offered)
        if offer is None:
            from jackstay.protocol.server import ServerOffer  # noqa: PLC0415  # see `dispatch`

            offer = self._offers[offered] = ServerOffer(self.options.for_core(offered))
        return offer

    def _offered(self) -> frozenset[str]:
        catalogue = self.catalogue
        registered = {
            "tools": catalogue.tools,
            "resources": catalogue.resources or catalogue.templates,
            "prompts": catalogue.prompts,
            "completions": catalogue.completions,
        }
        return frozenset(self.options.offers).union(name for name, found in registered.items() if found)

    def _key_ring(self) -> KeyRing:
        if self._ring is None:
            from jackstay.server._rounds import KeyRing  # noqa: PLC0415  # loads hmac; most servers never ask

            self._ring = KeyRing(self.options.keys)
        return self._ring


def find_server(module: object, name: str | None = None) -> Server:
    """The server in a module: the one of this name, or else the only one there is.

    Raises: UsageError, saying what is there.
    """
    if name is not None:
        found = getattr(module, name, None)
        if not isinstance(found, Server):
            raise UsageError(f"{name} is not a Server in {getattr(module, '__name__', module)!r}", path=name)
        return found
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    distinct = {id(server): server for server in servers.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    names = ", ".join(servers) or "none"
    raise UsageError(
        f"{getattr(module, '__name__', module)!r} must have one Server, and has {names}; name it as FILE:NAME"
    )
