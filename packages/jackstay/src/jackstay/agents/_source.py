"""`ToolSource`: the tools of a server, opened once, for the adapters of this package.

Agent frameworks call tools from threads, from event loops, and from several event loops one after the other. So a
connection runs on the event loop thread of `jackstay.sync`, unless the program has opened the client itself: then it
stays on the event loop of the program. A call from elsewhere is passed on to that event loop; so is its cancellation.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar, Unpack

import msgspec

from jackstay import sync
from jackstay._signatures import shows
from jackstay.client import Client, Connectable, Fleet, Notification, ToolOptions, connect
from jackstay.errors import McpError, StateError, UsageError
from jackstay.models import ModelCall, Outcome, Toolbox
from jackstay.types import META_LOG_LEVEL, ProgressNotificationParams, Tool, encode_json

P = ParamSpec("P")
R = TypeVar("R")

# What the adapters accept: what `connect()` accepts, a client or a fleet (open or not), also those of `jackstay.sync`.
Source: TypeAlias = "Connectable | Client | Fleet | sync.Client | sync.Fleet"

# Selects the tools that the model may use.
Only: TypeAlias = Callable[[Tool], object] | None

logger = logging.getLogger("jackstay.agents")

# Log messages of the server from this level on are requested; they are logged, and passed to callbacks.
LOG_LEVEL = "info"
# The levels of MCP that `logging` does not have.
_LEVELS = {"notice": logging.INFO, "alert": logging.CRITICAL, "emergency": logging.CRITICAL}


class AgentTool(NamedTuple):
    """A tool as a model can use it; `tool` is the tool as the server listed it."""

    name: str
    description: str
    parameters: dict[str, Any]
    tool: Tool

    def to_json(self) -> dict[str, Any]:
        """Return the tool as in a response to `tools/list`, with the name and the schema for the model."""
        listed: dict[str, Any] = msgspec.json.decode(encode_json(self.tool))
        return {**listed, "name": self.name, "inputSchema": self.parameters}

    @property
    def annotations(self) -> dict[str, Any] | None:
        """The hints of the server about the tool, if there are any."""
        return self.to_json().get("annotations")


class CallEvent(NamedTuple):
    """What a server sent during a call: `kind` is `progress` or `log`, `data` the params of the notification."""

    kind: str
    data: dict[str, Any]


class ToolSource:
    """The tools of one server or fleet. Open it with `async with` or `with`, then use it from any loop or thread.

    What this object opens, it closes; a client that is already open stays open. `options` are the settings of
    `docs/settings.md`, for a connection that is made here; such a connection can be opened again after it was closed
    or could not be opened.

    Raises: UsageError for an invalid source, an unknown option or a bad value.
    """

    def __init__(self, source: Source, only: Only = None, **options: Any) -> None:
        is_blocking = isinstance(source, sync.Client | sync.Fleet)
        target: Any = vars(source)["_async"] if is_blocking else source
        # Makes the client or the fleet, which can be opened only once; None if the program made it.
        self._connect: Callable[[], Client | Fleet] | None = None
        if not isinstance(target, Client | Fleet):
            self._connect = partial(connect, target, **options)
            target = self._connect()
        elif options:
            option = next(iter(options))
            raise UsageError(f"{option!r} is an option of {type(target).__name__}(): pass it there", path=option)
        self._only = only
        self._use(target)
        self._is_owner = all(client.state == "new" for client in self._clients)
        self._portal = sync.portal()
        # The event loop of the connection; None for the one of the portal.
        self._loop = None if self._is_owner or is_blocking else asyncio.get_running_loop()
        self._is_new = True
        self._listed: list[AgentTool] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._handlers: list[Callable[[CallEvent], None]] = []

    def __repr__(self) -> str:
        return f"<ToolSource of {self._target!r}>"

    def _use(self, target: Client | Fleet) -> None:
        self._target = target
        self._clients = [target] if isinstance(target, Client) else [target[name] for name in target]
        self._toolbox = Toolbox(target, "openai", only=self._only)

    @property
    def name(self) -> str:
        """The name of the server, or of the servers."""
        return ", ".join(client.settings.name for client in self._clients)

    # --- from an event loop -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the connection, unless it is open. Raises: as `client.open()`; nothing is left running then."""
        self._register()
        attempt: list[asyncio.Task[None]] = []
        try:
            await self._run(self._open, attempt)
        except BaseException:
            if attempt:
                await self._run(self._close, *attempt)
            self._unregister()
            raise

    async def close(self) -> None:
        """Close what `open()` opened."""
        await self._run(self._close)
        self._unregister()

    async def list_tools(self) -> list[AgentTool]:
        """Return the tools; if the server cannot be reached, those of the last list. Raises: as `tools.list()`."""
        return await self._run(self._list)

    @shows("jackstay.client:ToolOptions")
    async def call(
        self,
        name: str,
        arguments: Any,
        on_event: Callable[[CallEvent], Awaitable[object]] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Outcome:
        """Call a tool by its name for the model. A failure is in the outcome, whose text is for the model.

        `on_event` is awaited on the event loop of the caller for each event of the call, in order. `options` are those
        of `client.tools.call()`.
        """
        if on_event is None:
            return await self._run(self._call, name, arguments, None, options)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[CallEvent | None] = asyncio.Queue()
        consumer = loop.create_task(_consume(events, on_event))

        def forward(event: CallEvent) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        try:
            outcome = await self._run(self._call, name, arguments, forward, options)
            events.put_nowait(None)
            await consumer
            return outcome
        finally:
            consumer.cancel()

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send any request and return its result as plain JSON. Raises: as every request; UsageError for a fleet."""
        return await self._run(self._request, method, params or {})

    async def _run(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function on the event loop of the connection."""
        if self._loop is asyncio.get_running_loop():
            return await function(*args, **kwargs)
        if self._loop is None:
            future = self._portal.submit(function, *args, **kwargs)
        else:
            future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)
        return await asyncio.wrap_future(future)

    # --- blocking -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.wait_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.wait_close()

    def wait_open(self) -> None:
        """As `open()`, for code without an event loop."""
        self._register()
        attempt: list[asyncio.Task[None]] = []
        try:
            self._wait(self._open, attempt)
        except BaseException:
            if attempt:
                self._wait(self._close, *attempt)
            self._unregister()
            raise

    def wait_close(self) -> None:
        """As `close()`, for code without an event loop."""
        if self._is_owner and sys.is_finalizing():
            return  # a framework closes it in `__del__`; the portal has closed it at interpreter exit
        self._wait(self._close)
        self._unregister()

    def wait_list_tools(self) -> list[AgentTool]:
        """As `list_tools()`, for code without an event loop."""
        return self._wait(self._list)

    @shows("jackstay.client:ToolOptions")
    def wait_call(
        self,
        name: str,
        arguments: Any,
        on_event: Callable[[CallEvent], None] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Outcome:
        """As `call()`, for code without an event loop; `on_event` runs on the thread of the connection."""
        return self._wait(self._call, name, arguments, on_event, options)

    def _wait(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function on the event loop of the connection and wait. Raises: StateError on that loop."""
        if self._loop is None:
            return self._portal.wait(function, *args, **kwargs)
        if asyncio._get_running_loop() is self._loop:
            raise StateError("busy", message="a blocking call on the event loop of the client would wait forever")
        future = asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # after Ctrl-C; otherwise it is done
            raise

    # --- the portal ---------------------------------------------------------------------------------------------------

    def _register(self) -> None:
        if self._is_owner:
            self._portal.register(self, self._close)

    def _unregister(self) -> None:
        if self._is_owner and self._opening is None:
            self._portal.unregister(self)

    # --- on the event loop of the connection --------------------------------------------------------------------------

    async def _open(self, attempt: "list[asyncio.Task[None]]") -> None:
        """Open the connection; `attempt` receives the task that does so."""
        if not self._is_owner:
            return
        if self._opening is None:
            if not self._is_new and self._connect is not None:
                self._use(self._connect())
            self._is_new = False
            for client in self._clients:
                client.on_notification(partial(self._on_notification, client.settings.name))
            self._opening = asyncio.create_task(self._target.open())
        attempt.append(self._opening)
        await asyncio.shield(self._opening)

    async def _close(self, attempt: "asyncio.Task[None] | None" = None) -> None:
        """Close the connection; with `attempt`, only if that is the one which opened it."""
        if attempt is not None and attempt is not self._opening:
            return
        # Once: the next call may run on another event loop, because that of the portal ends when it is idle.
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await self._target.stop()

    async def _list(self) -> list[AgentTool]:
        try:
            definitions = await self._toolbox.definitions()
        except McpError as error:
            # Frameworks list the tools before each step of a run, which must not end because a server restarts.
            if self._listed is None:
                raise
            logger.warning("%s: listing the tools failed, so the last list is used: %s", self.name, error)
        else:
            tools = self._toolbox.tools
            functions = [definition["function"] for definition in definitions]
            self._listed = [AgentTool(**function, tool=tools[function["name"]]) for function in functions]
        return self._listed

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(self._target, Client):
            raise UsageError(f"{method} needs one server: pass a client, such as fleet[name], instead of the fleet")
        return await self._target.submit(method, params)

    async def _call(
        self, name: str, arguments: Any, on_event: Callable[[CallEvent], None] | None, options: ToolOptions
    ) -> Outcome:
        if self._is_owner:
            options["meta"] = {META_LOG_LEVEL: LOG_LEVEL, **(options.get("meta") or {})}
        call = ModelCall(id="", name=name, arguments=arguments)
        if on_event is None:

            def log_progress(progress: ProgressNotificationParams) -> None:
                share = f"{progress.progress:g}" + (f" of {progress.total:g}" if progress.total else "")
                logger.info("%s: %s: %s %s", self.name, name, share, progress.message or "")

            options.setdefault("on_progress", log_progress)
            return await self._toolbox.run(call, **options)

        def on_progress(progress: ProgressNotificationParams) -> None:
            data = {"progress": progress.progress, "total": progress.total, "message": progress.message}
            on_event(CallEvent("progress", {key: value for key, value in data.items() if value is not None}))

        self._handlers.append(on_event)
        try:
            options["on_progress"] = on_progress
            return await self._toolbox.run(call, **options)
        finally:
            self._handlers.remove(on_event)

    def _on_notification(self, server: str, notification: Notification) -> None:
        if notification.method != "notifications/message":
            return
        params = notification.params
        level = str(params.get("level"))
        number = _LEVELS.get(level, logging.getLevelNamesMapping().get(level.upper(), logging.INFO))
        logger.log(number, "%s: %s", server, params.get("data"))
        # The protocol does not name the call that a message is about.
        for handler in self._handlers:
            handler(CallEvent("log", dict(params)))


async def _consume(
    events: "asyncio.Queue[CallEvent | None]", on_event: Callable[[CallEvent], Awaitable[object]]
) -> None:
    while (event := await events.get()) is not None:
        try:
            await on_event(event)
        except Exception:  # of the program; the call continues
            logger.exception("a callback for %s events raised an exception", event.kind)
