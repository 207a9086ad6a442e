"""`Server`, the public class: registration of functions, the lifecycle hooks, and the ways to serve.

A server may have many connections at once. A change to its catalogue, made by any thread, is announced to all of them.
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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from jackstay._signatures import shows
from jackstay.errors import Json, UsageError
from jackstay.protocol import LIST_CHANGES
from jackstay.server._catalogue import CHANGES, Catalogue, Kind
from jackstay.server._entries import check_function, refuse_name
from jackstay.server._lifetime import Lifetime
from jackstay.server._options import CAPABILITIES, make_options
from jackstay.server._pool import Pool
from jackstay.server._telemetry import Listener, Telemetry

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from jackstay.extensions import Extension
    from jackstay.openapi import ApiKeywords, Source
    from jackstay.protocol.http import ParamHeader
    from jackstay.protocol.server import ServerConfig
    from jackstay.server._backend import Backend
    from jackstay.server._changes import BusLink, ChangeBus
    from jackstay.server._connection import Connection
    from jackstay.server._dispatch import Dispatch, Middleware, OnInvalidArguments
    from jackstay.server._driver import Caller, ConnectionConfig, Driver, Handlers, SubscriberIndex
    from jackstay.server._extensions import Extensions
    from jackstay.server._files import ResourceSource
    from jackstay.server._hooks import Hooks
    from jackstay.server._input_required import KeyRing
    from jackstay.server._keywords import (
        AddedToolKeywords,
        PromptKeywords,
        ResourceKeywords,
        ServerKeywords,
        ToolKeywords,
    )
    from jackstay.server._lifespan import Lifespan
    from jackstay.server._mount import Mount
    from jackstay.server._mounts import Mountable, Mounts
    from jackstay.server._tools import ToolEntry
    from jackstay.server._transforms import Transforms
    from jackstay.server._visibility import MountedRule, Rule, Views
    from jackstay.server.http import App, Asgi, Guard, HttpKeywords, RunHttpKeywords
    from jackstay.transport import Target
    from jackstay.types import CallToolResult, PromptReference, ResourceTemplateReference, Tool

logger = logging.getLogger("jackstay.server")

F = TypeVar("F", bound=Callable[..., Any])

# Seconds that are added to `drain_timeout` for flushing and for shutdown hooks over stdio.
STDIO_FLUSH = 0.25


class Server:
    """An MCP server. Register functions, then `run()` it, mount `asgi()`, or `serve()` a transport.

    Raises: UnexpectedOptionError for an unknown option; UsageError for a value that is out of range.
    """

    @shows("jackstay.server._options:Options")
    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        instructions: str = "",
        middleware: Sequence[Middleware | Hooks] | Middleware | Hooks = (),
        on_invalid_arguments: OnInvalidArguments | None = None,
        changes: ChangeBus | None = None,
        backend: Backend | None = None,
        extensions: Sequence[Extension] = (),
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        **options: Unpack[ServerKeywords],
    ) -> None:
        self.options = make_options(name=name, version=version, instructions=instructions, **options)
        self.catalogue = Catalogue(self.options, lambda kind: self._publish_change(CHANGES[kind], ""))
        self._pool = Pool(self.options.threads)
        self._lifetime = Lifetime()
        self._lifetime.final_hooks.append(self._close_dependencies)
        self._telemetry = Telemetry(name)
        # Those that all workers share for `requestState`, unless the server has its own.
        self._shared_secrets: tuple[bytes, ...] = ()
        self._middleware: list[Middleware] = []
        self._views: Views | None = None
        self._on_invalid_arguments = on_invalid_arguments
        for item in middleware if isinstance(middleware, Sequence) else (middleware,):
            self.add_middleware(item)
        if on_invalid_arguments is not None:
            check_function(on_invalid_arguments, "on_invalid_arguments")
            if inspect.iscoroutinefunction(on_invalid_arguments):
                message = "on_invalid_arguments must be a plain function, not async: its result is not awaited"
                raise UsageError(message, path="on_invalid_arguments")
        self._lifespan: Lifespan | None = None
        if lifespan is not None:
            self._add_lifespan(lifespan)
        self._lock = threading.Lock()
        self._connections: dict[int, Driver] = {}
        # None: there was no connection yet.
        self._subscriber_index: SubscriberIndex | None = None
        self._numbers = itertools.count(1)
        # By what was registered.
        self._configs: dict[tuple[bool, ...], tuple[ServerConfig, frozenset[str]]] = {}
        self._apps: weakref.WeakSet[App] = weakref.WeakSet()
        # The servers that are mounted in this one, and the mounts by which it is part of others.
        self._mounts: Mounts | None = None
        self._mounted_in: tuple[Mount, ...] = ()
        self._backend = backend
        self._extensions: Extensions | None = None
        # Carries changes to other processes. None: there is only this one.
        self._bus: BusLink | None = None
        if backend is not None or changes is not None:
            from jackstay.server._backend import link_bus  # noqa: PLC0415  # few servers need it

            self._bus = link_bus(name, backend, changes, self._notify, self._lifetime)
        if extensions:
            self.add_extensions(extensions)

    @classmethod
    @shows("jackstay.openapi._api:ApiSettings")
    def from_openapi(
        cls,
        document: Source,
        *,
        client: Any = None,
        name: str | None = None,
        server_options: Mapping[str, Any] | None = None,
        **options: Unpack[ApiKeywords],
    ) -> Self:
        """Create a server from an OpenAPI document (3.0 or 3.1): a path, JSON or YAML text, or a mapping.

        Requests are sent with `client`, an `httpx.AsyncClient`; by default with one of its own. `server_options` are
        keyword arguments of `Server()`. `docs/guides/openapi.md` explains the other options.

        An operation that cannot be served is left out with an `OpenApiWarning`.

        Raises: OpenApiError, if the document cannot be used or, with `strict=True`, if an operation cannot be served;
            UsageError for a bad option or a missing extra.
        """
        from jackstay.server._openapi import api_of_document, make_server  # noqa: PLC0415  # few servers need it

        return make_server(cls, api_of_document(document, client, options), name, server_options)

    @classmethod
    @shows("jackstay.openapi._api:ApiSettings")
    def from_fastapi(
        cls,
        app: Any,
        *,
        name: str | None = None,
        lifespan: bool = True,
        server_options: Mapping[str, Any] | None = None,
        **options: Unpack[ApiKeywords],
    ) -> Self:
        """Create a server from a FastAPI application, which is called in this process, without sockets.

        The lifespan of the application runs when the server starts and stops, unless `lifespan=False`. The rest is as
        for `from_openapi()`.
        """
        from jackstay.server._openapi import api_of_application, make_server  # noqa: PLC0415  # few servers need it

        return make_server(cls, api_of_application(app, options), name, server_options, runs_lifespan=lifespan)

    @cached_property
    def _dispatch(self) -> Dispatch:
        """The request dispatcher. Created with the first connection, because its imports are slow."""
        dispatch = self._make_dispatch(self.catalogue)
        dispatch.middleware = self._middleware
        for part in (self._extensions, self._mounts, self._views):
            if part is not None:
                part.install(dispatch)
        return dispatch

    def _make_dispatch(self, catalogue: Catalogue) -> Dispatch:
        from jackstay.server._dispatch import Dispatch  # noqa: PLC0415  # loaded on first use

        return Dispatch(self, catalogue)

    @property
    def _handlers(self) -> Handlers:
        """The object that serves the requests of every connection: the dispatcher. A proxy overrides it."""
        return self._dispatch

    def __repr__(self) -> str:
        return f"<Server {self.options.name} {self.catalogue!r} {len(self._connections)} connections>"

    @property
    def name(self) -> str:
        """The name that clients see in `serverInfo`."""
        return self.options.name

    # --- registering --------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolKeywords]) -> Callable[[F], F]: ...
    @shows("jackstay.server._tools:ToolOptions")
    def tool(self, function: F | None = None, /, **options: Unpack[ToolKeywords]) -> F | Callable[[F], F]:
        """Register a function as a tool: `@server.tool` or `@server.tool(read_only=True)`. Returns the function.

        Raises: UsageError, which names the function, the parameter and the reason.
        """

        def register(call: F) -> F:
            from jackstay.server._tools import ToolOptions, tool_from_function  # noqa: PLC0415  # loaded on first use

            entry = tool_from_function(call, ToolOptions.from_keywords("tool()", options))
            self.catalogue.add_tools(self._extend_for(entry))
            return call

        refuse_name(function, "tool")
        return register if function is None else register(function)

    @shows("jackstay.server._tools:ToolOptions", without="structured")
    def add_tool(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Json],
        handler: Callable[..., object],
        validate: bool = True,
        replace: bool = False,
        **options: Unpack[AddedToolKeywords],
    ) -> None:
        """Register a tool by its JSON Schema. `handler` is called with the arguments as a dict, and with the context
        if it has a second parameter.

        `validate=False` skips the validation of arguments and output. `replace` allows to replace a tool of this name.

        Raises: UsageError for an invalid schema, a duplicate name, or a missing extra.
        """
        entry = self.tool_from_schema(name, input_schema=input_schema, handler=handler, validate=validate, **options)
        self.catalogue.add_tools(entry, replace=replace)

    @shows("jackstay.server._tools:ToolOptions", without="structured")
    def tool_from_schema(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Json],
        handler: Callable[..., object],
        validate: bool = True,
        **options: Unpack[AddedToolKeywords],
    ) -> ToolEntry:
        """Create a tool as `add_tool` does, but do not register it.

        `server.catalogue.add_tools(*entries)` registers many at once, with a single notification.

        Raises: as `add_tool`.
        """
        from jackstay.server._tools import ToolOptions, tool_from_schema  # noqa: PLC0415  # loaded on first use

        made = ToolOptions.from_keywords("add_tool()", {"name": name, **options})
        return self._extend_for(tool_from_schema(handler, made, input_schema, validate=validate))

    @shows("jackstay.server._resources:ResourceOptions")
    def resource(self, uri: str, **options: Unpack[ResourceKeywords]) -> Callable[[F], F]:
        """Register a function as a resource, or as a resource template if `uri` has variables in braces.

        The variables are the parameters of the function.

        Raises: UsageError, if variables and parameters do not match.
        """
        if not isinstance(uri, str):  # `@server.resource` without parentheses
            raise UsageError('resource() requires a URI: @server.resource("notes://all")', path="uri")

        def register(call: F) -> F:
            self._add_resources([(uri, call, options)])
            return call

        return register

    @shows("jackstay.server._resources:ResourceOptions")
    def add_resource(self, *sources: ResourceSource, **options: Unpack[ResourceKeywords]) -> None:
        """Register `TextResource`, `FileResource`, `DirectoryResource` or `HttpResource` objects, all or none.

        Raises: UsageError for a duplicate URI or an unknown option.
        """
        rows = [row for source in sources for row in source.entries()]
        self._add_resources([(uri, read, {**made, **options}) for uri, read, made in rows])

    def _add_resources(self, rows: Iterable[tuple[str, Callable[..., object], ResourceKeywords]]) -> None:
        from jackstay.server._resources import ResourceOptions, resource_from_function  # noqa: PLC0415  # on first use

        entries = (
            resource_from_function(uri, read, ResourceOptions.from_keywords("resource()", options))
            for uri, read, options in rows
        )
        self.catalogue.add_resources(*entries)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptKeywords]) -> Callable[[F], F]: ...
    @shows("jackstay.server._prompts:PromptOptions")
    def prompt(self, function: F | None = None, /, **options: Unpack[PromptKeywords]) -> F | Callable[[F], F]:
        """Register a function as a prompt: `@server.prompt` or `@server.prompt(title="...")`.

        Raises: UsageError for a parameter whose type cannot be read from a string.
        """

        def register(call: F) -> F:
            from jackstay.server._prompts import PromptOptions, prompt_from_function  # noqa: PLC0415  # on first use

            self.catalogue.add_prompts(prompt_from_function(call, PromptOptions.from_keywords("prompt()", options)))
            return call

        refuse_name(function, "prompt")
        return register if function is None else register(function)

    def completion(
        self, of: str | PromptReference | ResourceTemplateReference, argument: str, *, blocking: bool | None = None
    ) -> Callable[[F], F]:
        """Register a function that completes an argument of a prompt or a variable of a resource template.

        `of` is the prompt's name, or the URI template with its braces. The function is called with the value typed so
        far and, if it has a second parameter, with the arguments that are already resolved.

        Raises: UsageError for a function with other parameters than `(value)` or `(value, arguments)`.
        """

        def register(call: F) -> F:
            from jackstay.server._completions import completion_from_function  # noqa: PLC0415  # loaded on first use

            self.catalogue.add_completion(completion_from_function(of, argument, call, blocking))
            return call

        return register

    def _extend_for(self, entry: ToolEntry) -> ToolEntry:
        """Add the extensions that a tool needs: tasks (in memory, unless it was done before) and apps. Returns it."""
        if entry.task is not None:
            from jackstay.server._tasks import enable_tasks  # noqa: PLC0415  # few servers need it

            enable_tasks(self)
        if entry.app is not None:
            from jackstay.server._apps import enable_app  # noqa: PLC0415  # few servers need it

            enable_app(self, entry.app)
        return entry

    def add_extensions(self, extensions: Sequence[Extension]) -> None:
        """Add extensions, as `extensions=` of the constructor. The server must not serve yet. Raises: UsageError."""
        from jackstay.server._extensions import Extensions  # noqa: PLC0415  # few servers need it

        if self._extensions is None:
            self._extensions = Extensions(self)
        self._extensions.add(extensions)
        self._configs.clear()

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> CallToolResult:
        """Call a tool of this server in this process, through the middleware, as a caller without limits.

        The tool cannot request input. If the server is not running, it is started for the call.

        Raises: ToolCallError, if the tool failed; JsonRpcError, if there is no such tool.
        """
        from jackstay.server._in_process import call_tool  # noqa: PLC0415  # few servers need it

        return await call_tool(self, name, arguments)

    async def list_tools(self) -> list[Tool]:
        """Return the tools that clients see."""
        from jackstay.server._in_process import list_tools  # noqa: PLC0415  # few servers need it

        return await list_tools(self)

    def remove_tool(self, *names: str) -> None:
        """Remove tools by name. Raises: UsageError for an unknown name."""
        self.catalogue.remove_tools(*names)

    def remove_resource(self, *uris: str) -> None:
        """Remove resources by URI, and templates by URI template. Raises: UsageError for an unknown one."""
        self.catalogue.remove_resources(*uris)

    def remove_prompt(self, *names: str) -> None:
        """Remove prompts by name. Raises: UsageError for an unknown name."""
        self.catalogue.remove_prompts(*names)

    def enable(self, *keys: str, tags: Iterable[str] = ()) -> None:
        """Enable tools and prompts by name, resources by URI, and everything with one of these tags.

        Raises: UsageError for an unknown key.
        """
        self.catalogue.set_enabled(keys, tags, enabled=True)

    def disable(self, *keys: str, tags: Iterable[str] = ()) -> None:
        """Disable entries, as `enable()` enables them: they are neither listed nor found."""
        self.catalogue.set_enabled(keys, tags, enabled=False)

    def visible(
        self,
        *keys: str,
        tags: Iterable[str] = (),
        scopes: Iterable[str] = (),
        principals: Iterable[str] = (),
        when: Callable[[Caller], object] | None = None,
    ) -> None:
        """Show entries only to some callers: those with all `scopes`, one of `principals`, for which `when` is true.

        The entries are those with one of the names, URIs or tags; without any, all. For other callers they are unknown,
        in lists and in calls, also of a server that mounts this one. If several rules apply to an entry, a caller needs
        to fulfil all.

        Raises: UsageError for a bad value, and for a rule without a condition.
        """
        from jackstay.server._visibility import make_rule  # noqa: PLC0415  # few servers need it

        self._add_rules((make_rule(keys, tags, scopes, principals, when),))

    def _add_rules(self, rules: tuple[Rule | MountedRule, ...]) -> None:
        """Add rules of visibility, here and wherever this server is mounted."""
        views = self._make_views()
        views.change(rules)
        for method in set(CHANGES.values()):
            self._publish_change(method, "")
        for mount in self._mounted_in:
            views.apply_at_host(mount, rules)

    def search_tools(self, *, above: int = 50, limit: int = 5) -> None:
        """List two tools instead of all, to callers that see more than `above`: `search_tools` and `call_tool`.

        `search_tools` returns `limit` tools unless the caller requests more. All tools can still be called directly.
        A server that mounts this one lists all of its tools, unless it has a search of its own.

        Raises: UsageError for a bad value, a second call, and if a tool has one of the names.
        """
        from jackstay.server._search import enable_search  # noqa: PLC0415  # few servers need it

        self._middleware.insert(0, enable_search(self._make_views(), above, limit))
        self._publish_change(CHANGES[Kind.TOOLS], "")

    def _make_views(self) -> Views:
        """Serve each class of callers with its own view of the catalogue from now on."""
        if self._views is None:
            from jackstay.server._visibility import Views  # noqa: PLC0415  # few servers need it

            self._views = Views(self.catalogue, self._make_dispatch)
            if "_dispatch" in self.__dict__:
                self._views.install(self._dispatch)
        return self._views

    def add_middleware(self, middleware: Middleware | Hooks) -> None:
        """Run this around every request, inside the middleware that was added before. Raises: UsageError."""
        if hasattr(middleware, "on_request"):
            from jackstay.server._hooks import make_middleware  # noqa: PLC0415  # few servers need it

            middleware = make_middleware(middleware)  # type: ignore[arg-type]  # a function has no hooks
        check_function(middleware, "middleware")
        self._middleware.append(middleware)

    def _add_lifespan(self, lifespan: Callable[[Server], AbstractAsyncContextManager[Any]]) -> None:
        from jackstay.server._lifespan import Lifespan  # noqa: PLC0415  # few servers need it

        check_function(lifespan, "lifespan")
        self._lifespan = Lifespan(lambda: lifespan(self), self.shutdown)
        self._lifetime.startup_hooks.append(self._lifespan.enter)
        self._lifetime.final_hooks.append(self._lifespan.leave)

    def override(self, provider: Callable[..., Any], replacement: Callable[..., Any]) -> AbstractContextManager[None]:
        """Call `replacement` instead of `provider`, a dependency, inside a `with` block. For tests."""
        return self._dispatch.dependencies.override(provider, replacement)

    async def _close_dependencies(self) -> None:
        if "_dispatch" in self.__dict__ and "dependencies" in self._dispatch.__dict__:
            await self._dispatch.dependencies.close()

    def on_startup(self, hook: F) -> F:
        """Call this function, sync or async, once before the first client is served. A decorator."""
        check_function(hook, "on_startup")
        self._lifetime.startup_hooks.append(hook)
        return hook

    def on_shutdown(self, hook: F) -> F:
        """Call this function, sync or async, once after the last client was served. A decorator."""
        check_function(hook, "on_shutdown")
        self._lifetime.shutdown_hooks.append(hook)
        return hook

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event. Returns a function that ends the subscription."""
        check_function(listener, "subscribe")
        return self._telemetry.subscribe(listener)

    def mount(self, other: Mountable, *, prefix: str | None = None, transforms: Transforms | None = None) -> None:
        """Add the tools, resources and prompts of another server to this one, and forward requests for them.

        `other` is a `Server`, a URL, a transport, the path of a program or of an `mcpServers` file, or a `Fleet`. With
        a prefix, the tool `read` is called `PREFIX_read`, and the URI `notes://all` becomes `notes://PREFIX/all`. The
        servers of a file or a fleet have their names as prefixes. `transforms` is a table that renames, describes,
        hides and presets. `docs/guides/gateway.md` has the details.

        Raises: UsageError for a cycle, a name that this server already has, or something that cannot be mounted.
        """
        from jackstay.server._mounts import make_mounts, mount_servers  # noqa: PLC0415  # few servers need it

        mount_servers(self, make_mounts(self, other, prefix or "", transforms))

    def _make_mount(self, host: Server, prefix: str, separator: str) -> Mount:
        """Return the mount of this server in another one. A proxy overrides it."""
        from jackstay.server._mount import Mount  # noqa: PLC0415  # few servers need it

        return Mount(host, self, prefix, separator)

    # --- notifications ------------------------------------------------------------------------------------------------

    def notify_resource_updated(self, uri: str) -> None:
        """Notify all subscribers of this resource that it changed. Thread-safe."""
        self._publish_change("notifications/resources/updated", uri)

    def _notify(self, method: str, uri: str = "", params: bytes = b"") -> None:
        """Notify the subscribed clients of this process: of a changed list, or of the resource at `uri`.

        `params`, if there are any, are sent unchanged. Thread-safe.
        """
        index, is_list = self._subscriber_index, method in LIST_CHANGES
        if index is not None and (uri or is_list):  # of thousands of connections, few may have subscribed
            connections = index.changed(uri or method)
        else:  # of anything, see `GAP`; or there was no connection yet
            with self._lock:
                connections = list(self._connections.values())
        if self._views is not None and self._bus is None and method in CHANGES.values():
            is_concerned = self._views.concerned(method)
            connections = [connection for connection in connections if is_concerned(connection.caller)]
        for connection in connections:
            connection.call(connection.changed, method, uri, params)
        for mount in self._mounted_in:
            mount.changed(method, uri, params)

    def _publish_change(self, method: str, uri: str) -> None:
        if self._bus is None:
            self._notify(method, uri)
        else:
            self._bus.publish(method, uri)

    # --- serving ------------------------------------------------------------------------------------------------------

    @shows("jackstay.server.http:HttpOptions", "jackstay.server.http:RunOptions")
    def run(
        self,
        *,
        transport: str = "stdio",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        wrap_app: Callable[[App], Asgi] | None = None,
        exit_process: Callable[[int], object] = os._exit,
        **options: Unpack[RunHttpKeywords],
    ) -> int:
        """Serve stdio until the client disconnects, or HTTP (`transport="http"`) until a signal. Returns the exit code.

        SIGINT, SIGTERM and SIGHUP drain; a second signal exits at once. If a thread still runs at the end,
        `exit_process(code)` ends the process, after all output was flushed, so that a hung tool cannot keep it alive.

        For HTTP the options are `host`, `port`, `workers` and so on, and all options of `asgi()`. `wrap_app(app)`
        returns the ASGI app to serve instead of `app`, for example one with more routes.

        Raises: UsageError inside a running event loop (use `await server.serve_stdio()` or `server.asgi()` there) or
            for a bad option; TransportError, if it cannot listen on the address.
        """
        from jackstay.server._run import run  # noqa: PLC0415  # only needed to run a process

        if transport == "stdio" and not options:
            return run(self, loop_factory, exit_process)
        if transport not in ("stdio", "http"):
            raise UsageError(f"transport must be 'stdio' or 'http', not {transport!r}", path="transport")
        if transport == "stdio":
            names = ", ".join(sorted(options))
            raise UsageError(f"options for transport='http' only: {names}", path="transport")
        from jackstay.server.http import run_http  # noqa: PLC0415  # only needed for HTTP

        return run_http(self, options, loop_factory=loop_factory, exit_process=exit_process, wrap_app=wrap_app)

    @property
    def _blocking_calls(self) -> int:
        """How many blocking functions run in threads now."""
        return self._pool.busy + self._lifetime.pool.busy

    @shows("jackstay.server.http:HttpOptions")
    def asgi(self, *, guard: Guard | None = None, **options: Unpack[HttpKeywords]) -> App:
        """Create an ASGI 3 app that serves this server over HTTP, for uvicorn or to mount in another app.

        One URL serves clients of both eras.

        Raises: UsageError for an option that is unknown or out of range.
        """
        from jackstay.server._backend import with_stores  # noqa: PLC0415  # only needed for HTTP
        from jackstay.server.http import App, make_http_options  # noqa: PLC0415  # only needed for HTTP

        app = App(self, make_http_options(**with_stores(self._backend, options)), guard)
        self._apps.add(app)
        return app

    async def serve_stdio(self, framing: str = "lines") -> int:
        """Serve this process's stdin and stdout until the client disconnects. Never ends the process.

        Returns how many blocking functions still run in threads. They cannot be stopped; a warning is logged.

        Raises: TransportError, if stdio is in use or closed.
        """
        return await self._serve_stdio(framing, lambda _: None)

    async def _serve_stdio(self, framing: str, on_ending: Callable[[bool], object]) -> int:
        """As `serve_stdio`. When the client has closed its end, call `on_ending` in any thread: with True while startup
        hooks still run.
        """
        from jackstay.transport import own_stdio  # noqa: PLC0415  # only needed for stdio

        target = own_stdio(framing)
        ended_at: list[float] = []

        def on_end_of_input() -> None:
            is_starting = self._lifetime.is_starting
            if not is_starting:
                ended_at.append(time.monotonic())
            on_ending(is_starting)

        target.on_end_of_input = on_end_of_input
        with target.acquired():  # what hooks print is no more for the client than what tools print
            if await self.startup(target):
                if target.has_input_ended:
                    on_end_of_input()
                await self._serve(target, on_end_of_input)
            since = time.monotonic() - ended_at[0] if ended_at else 0.0
            await self.shutdown(target, self.options.drain_timeout + STDIO_FLUSH - since)
        left = self._blocking_calls
        if left:
            logger.warning("%d blocking functions still run in threads", left)
        return left

    async def serve(self, target: Target) -> None:
        """Serve one connection until it ends: one end of a `memory_pair()`, or any other transport.

        Startup hooks run before the first of several overlapping calls, shutdown hooks after the last. Cancelling this
        closes the connection at once.

        Raises: TransportError, if the target cannot be opened; UsageError for a bad target; whatever a startup hook
            raises.
        """
        if not hasattr(target, "open"):
            raise UsageError(f"serve() expected a target such as memory_pair().server, got {target!r}", path="target")
        user = object()
        is_up = await self.startup(user)
        try:
            if is_up:
                await self._serve(target, None)
        finally:
            await self.shutdown(user)

    async def _serve(self, target: Target, on_draining: Callable[[], None] | None) -> None:
        connection = self._make_connection(self._connection_config())
        self._add_connection(connection)
        connection.on_draining = on_draining
        try:
            await connection.open(target)
            await connection.closed.wait()
        except asyncio.CancelledError:
            connection.stop()
            await connection.closed.wait()
            raise
        finally:
            self._remove_connection(connection)
            if not self._connections:
                self._pool.release()  # not `close`: HTTP requests without a session may still wait for a thread

    # --- private to the package: what the transports use, and a proxy overrides ---------------------------------------

    def _make_connection(self, config: ConnectionConfig) -> Connection:
        from jackstay.server._connection import Connection  # noqa: PLC0415  # see `_dispatch`

        return Connection(config)

    async def _before_handshake(self) -> None:
        """Awaited before an `initialize` over HTTP is served, and before `_current_config()` is called for it."""

    def _add_connection(self, connection: Driver) -> None:
        """Notify this connection of changes and drain it with the server, until `_remove_connection()`."""
        from jackstay.server._driver import SubscriberIndex  # noqa: PLC0415  # see `_dispatch`

        with self._lock:
            self._connections[connection.number] = connection
            if self._subscriber_index is None:
                self._subscriber_index = SubscriberIndex()
        connection.join(self._subscriber_index)

    def _remove_connection(self, connection: Driver) -> None:
        """Undo `_add_connection()`."""
        with self._lock:
            self._connections.pop(connection.number, None)
        index, connection.subscriber_index = connection.subscriber_index, None
        if index is not None:
            index.remove(connection, connection.topics)
        if self._mounts is not None:
            self._mounts.forget(connection)

    async def startup(self, user: Hashable = None) -> bool:
        """Run the startup hooks, one after the other, unless the server is already running.

        For code that serves by its own means. Each call with a `user` must be matched by a `shutdown()` with the same
        user. Returns False if the startup was cancelled meanwhile.

        Raises: whatever a hook raises. The next attempt begins with that hook.
        """
        return await self._lifetime.enter(user)

    def drain(self) -> None:
        """Drain every connection: refuse new requests and give running ones their time. Thread-safe."""
        self._lifetime.cancel_startup()
        with self._lock:
            connections = list(self._connections.values())
        for app in list(self._apps):
            app.refuse_new()
        for connection in connections:
            connection.call(connection.drain)

    async def shutdown(self, user: Hashable = None, timeout: float | None = None) -> None:
        """Run the shutdown hooks and close the thread pools.

        With a `user`, only if it is the last one for which `startup()` was called. All hooks together have `timeout`
        seconds; the default is the option `shutdown_timeout`.
        """
        budget = self.options.shutdown_timeout if timeout is None else timeout
        if await self._lifetime.leave(user, budget, self._end_serving):
            self._pool.close()
            self._lifetime.pool.close()

    async def _end_serving(self) -> None:
        """Awaited before the shutdown hooks. For subclasses that own resources."""

    def _current_config(self) -> tuple[ServerConfig, frozenset[str]]:
        """Return the configuration and the capabilities for a connection that starts now."""
        registered = self.catalogue.registered if self._mounts is None else self._mounts.registered()
        found = self._configs.get(registered)
        if found is None:
            from jackstay.protocol.server import ServerConfig  # noqa: PLC0415  # see `_dispatch`

            capabilities = frozenset(self.options.capabilities).union(itertools.compress(CAPABILITIES, registered))
            server_config = ServerConfig(self.options.for_core(capabilities, self._extensions))
            found = self._configs[registered] = server_config, capabilities
        return found

    def _connection_config(self) -> ConnectionConfig:
        from jackstay.server._driver import ConnectionConfig  # noqa: PLC0415  # see `_dispatch`

        server_config, capabilities = self._current_config()
        return ConnectionConfig(server_config, capabilities, self._handlers, self._telemetry, self._numbers)

    def _param_headers(self, tool: str) -> Sequence[ParamHeader]:
        """Return the arguments of a tool that HTTP clients repeat in headers; empty for an unknown tool."""
        entry = self.catalogue.tools.get(tool)
        return () if entry is None else entry.param_headers

    @cached_property
    def _key_ring(self) -> KeyRing:
        from jackstay.server._input_required import KeyRing  # noqa: PLC0415  # imports hmac, which few servers need

        return KeyRing(self.options.request_state_secrets or self._shared_secrets)


def find_server(module: object, name: str | None = None) -> Server:
    """Return the `Server` of this name in a module, or the only one there is.

    Raises: UsageError, if it is missing or ambiguous.
    """
    module_name = getattr(module, "__name__", module)
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    if name in servers:
        return servers[name]
    if name is not None:
        known = f"; it has {', '.join(servers)}" if servers else ""
        raise UsageError(f"no Server named {name!r} in {module_name!r}{known}", path=name)
    distinct = set(servers.values())
    if len(distinct) == 1:
        return distinct.pop()
    if not servers:
        raise UsageError(f"no Server found in {module_name!r}: create one at the top level of the module")
    raise UsageError(f"several Servers found in {module_name!r}: {', '.join(servers)}; choose one with FILE:NAME")
