"""`Client`: what a user holds. One namespace a feature, and the connection's own few words.

It knows how the parts hang together and nothing else: the features know their methods, the connection knows the wire.

Above: users, `_fleet`, `jackstay.sync`, the commands. Below: the features, `_requests`, `_connection`.
"""

import asyncio
import builtins
import inspect
import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

import msgspec

from jackstay.client._asking import Asking, check_function
from jackstay.client._call import Call
from jackstay.client._completion import Completions
from jackstay.client._connection import Connection
from jackstay.client._elicitation import Elicitation
from jackstay.client._lists import Cache
from jackstay.client._logging import Logging
from jackstay.client._prompts import Prompts
from jackstay.client._requests import CallOptions, ProgressHandler, Requests
from jackstay.client._resources import Resources
from jackstay.client._roots import Roots
from jackstay.client._sampling import Sampling
from jackstay.client._subscriptions import Subscriptions
from jackstay.client._telemetry import Listener, Telemetry, Trace
from jackstay.client._tools import Tools
from jackstay.client._wire import Wire
from jackstay.errors import Json, McpError, ProtocolError, ShutdownError, StateError, TimeoutError, UsageError
from jackstay.protocol import Era
from jackstay.protocol.client import Notice, Settings
from jackstay.protocol.client import events as e
from jackstay.transport import Target
from jackstay.types import (
    DiscoverResult,
    EmptyResult,
    Implementation,
    ProgressNotificationParams,
    ResourceUpdatedNotificationParams,
    ServerCapabilities,
    decode,
)

logger = logging.getLogger("jackstay.client")


class Notification(msgspec.Struct, frozen=True):
    """A notification of the server's: `params` as plain JSON, `raw` as they came."""

    method: str
    params: dict[str, Json]
    raw: bytes = b"{}"


# Hears of notifications, sync or async.
NotificationHandler: TypeAlias = Callable[[Notification], object | Awaitable[object]]


class Client:
    """A client that holds. Safe to share between the tasks of one event loop; make it with `connect()`.

    `lots` is where chance comes from (jitter, the names of calls in telemetry): give it for runs that can be repeated.
    """

    def __init__(self, target: Target, settings: Settings, *, lots: random.Random | None = None) -> None:
        self.settings = settings
        self.cache = Cache()
        self._target = target
        # For a fleet: called with every new state.
        self._on_state: Callable[[str], None] | None = None
        self._lots = lots
        self._telemetry = Telemetry(settings.name)
        self._asking = Asking()
        self._requests = Requests(self._asking)
        self._subscriptions = Subscriptions(self._requests)
        self._connection: Connection | None = None
        self._notification_handlers: list[NotificationHandler] = []
        self.tools = Tools(self._requests, self.cache)
        self.resources = Resources(self._requests, self.cache, self._subscriptions)
        self.prompts = Prompts(self._requests, self.cache)
        self.sampling = Sampling(self._asking, self._requests)
        self.roots = Roots(self._asking, self._requests)
        self.elicitation = Elicitation(self._asking)
        self.logging = Logging(self._requests)
        self.completion = Completions(self._requests)
        self.wire = Wire(self._requests, self._asking)

    def __repr__(self) -> str:
        return f"<Client {self.settings.name} {self.state}>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def open(self, *, wait: bool = True) -> None:
        """Connect. With `wait` it returns when ready; otherwise at once, and `ready()` waits. Once in a client's life.

        Raises: the newest cause, with exit code and stderr tail, when it cannot be done: after `max_attempts`, a permanent
        failure or `open_timeout`, whichever is first. Nothing is left running then.
        """
        if self._connection is not None:
            raise StateError(self.state, message="a client is opened once; make a new one")
        settings = self.settings
        if settings.capabilities is None:
            settings = msgspec.structs.replace(settings, capabilities=self._asking.capabilities())
        connection = Connection(self._target, settings, self._telemetry, self._lots)
        connection.on_arrival = self._take_arrival
        connection.on_notice = self._take_notice
        connection.on_request = self._asking.answer
        connection.on_transition = self._note_transition
        connection.on_subscription_end = self._subscriptions.ended
        self._connection = connection
        self._requests.attach(connection)
        connection.start()
        if wait:
            try:
                await self.ready(settings.open_timeout)
            except BaseException as error:
                await asyncio.shield(self.stop())
                if isinstance(error, McpError):
                    reason = _plain(error)
                    raise reason from reason.__cause__  # its own cause, and not what wrapped it
                raise

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until calls can be made.

        Raises: the error that closed it; TimeoutError after `timeout` seconds, with the newest cause as its cause.
        """
        connection = self._requests.connection
        _check_seconds(timeout, "timeout")
        try:
            await connection.ready(timeout)
        except McpError:
            raise
        except builtins.TimeoutError:
            cause = connection.core.cause
            said = f"not ready within {timeout:g} s" + (f": {cause}" if cause is not None else "")
            raise TimeoutError(timeout, sent=False, message=said) from cause

    async def stop(self, drain: float | None = None) -> None:
        """End it: open calls fail with ShutdownError, the server is closed, and this returns when it is gone.

        `drain` waits that many seconds for open calls first; new calls are refused with ShutdownError meanwhile. May be
        called by many, from any task, and again.
        """
        _check_seconds(drain, "drain")
        connection = self._connection
        if connection is None:
            return
        if drain is not None:
            connection.check_loop()
            await self._drain(connection, drain)
        await connection.stop()

    async def _drain(self, connection: Connection, seconds: float) -> None:
        """Wait for open calls; refuse new ones from now on, unless this wait is cancelled."""
        calls = connection.core.calls
        if calls.drain_at is None:
            calls.drain_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                while open_calls := connection.open_calls():
                    await asyncio.wait(open_calls)
        except builtins.TimeoutError:
            pass  # as long as was asked for: the rest is ended by stopping
        except BaseException:
            calls.drain_at = None
            raise

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """`new`, `starting`, `initializing`, `ready`, `backoff`, `closing` or `closed`."""
        return "new" if self._connection is None else self._connection.core.state.value

    @property
    def server_info(self) -> Implementation | None:
        """What the server calls itself; None where it did not say. Raises: StateError before ready."""
        return _implementation(self._requests.connection.server().info)

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server offers. After a loss: what it last offered. Raises: StateError before the first ready."""
        return self._requests.capabilities()

    @property
    def is_server_stale(self) -> bool:
        """True where what is known of the server is from before the last loss. Raises: StateError before `open()`."""
        return self._requests.connection.is_stale()

    @property
    def protocol_version(self) -> str:
        """The revision agreed on. Raises: StateError before the first ready."""
        return self._requests.connection.server().version

    @property
    def instructions(self) -> str:
        """What the server wants its user to know. Raises: StateError before the first ready."""
        return self._requests.connection.server().instructions

    # --- listening ----------------------------------------------------------------------------------------------------

    def on_notification(self, handler: NotificationHandler) -> NotificationHandler:
        """Call `handler(notification)` for each, one at a time and in order; sync or async; usable as a decorator.

        Changes of lists are among them: a stateless server, which must be asked for those, is asked.
        """
        check_function(handler, "on_notification")
        self._notification_handlers.append(handler)
        if self.state == "ready":
            self._subscriptions.want_lists()
        return handler

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """Call `handler(progress)` whenever a call reports; usable as a decorator.

        From now on every call asks for reports, and a report moves the soft deadline of its call.
        """
        check_function(handler, "on_progress")
        self._requests.progress_handlers.append(handler)
        return handler

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event; call what is returned to end that."""
        check_function(listener, "on_event")
        return self._telemetry.subscribe(listener)

    def trace_with(self, trace: Trace | None) -> None:
        """Make a span of every request, and hand its trace on to the server: see `opentelemetry()`. None ends that."""
        self._requests.trace = trace

    # --- asking -------------------------------------------------------------------------------------------------------

    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Make a request and return at once: `.id` is its id; await it for its result as plain JSON, or `cancel()` it."""
        return self._requests.submit(method, params or {}, options)

    async def ping(self, **options: Unpack[CallOptions]) -> str:
        """Ask for a sign of life with what `keepalive` would send, and return which method that was."""
        deadline = self._requests.deadline(options)
        connection = await self._requests.settled(options, deadline)
        if connection.server().era is Era.STATELESS:
            await self._requests.ask("server/discover", {}, DiscoverResult, options, deadline=deadline)
            return "server/discover"
        await self._requests.ask("ping", {}, EmptyResult, options, deadline=deadline)
        return "ping"

    # --- what arrives -------------------------------------------------------------------------------------------------

    def _take_arrival(self, method: str, params: msgspec.Raw | None, call: Call[Any] | None) -> bool:
        """What cannot wait for a slow handler: lists that changed, the server's word that it listens, all for `client.wire`."""
        self.cache.changed(method)
        if method != "notifications/subscriptions/acknowledged":
            return self.wire.take(method, params, call)
        try:
            self._subscriptions.acknowledged(b"{}" if params is None else params)
        except McpError as error:
            logger.warning("%s: %s cannot be read: %s", self.settings.name, method, error)
        return True

    async def _take_notice(self, notice: Notice) -> None:
        try:
            await self._dispatch(notice)
        except McpError as error:
            logger.warning("%s: %s cannot be read: %s", self.settings.name, notice.method, error)

    async def _dispatch(self, notice: Notice) -> None:
        params = notice.params or b"{}"
        if notice.method == "notifications/progress":
            await self._report(decode(ProgressNotificationParams, params))
            return
        if notice.method == "notifications/resources/updated":
            update = decode(ResourceUpdatedNotificationParams, params)
            for handler in self._subscriptions.handlers_for(update):
                await self._run(handler, update.uri)
        if self._notification_handlers:
            members = msgspec.json.decode(params)
            if not isinstance(members, dict):
                raise ProtocolError("the params are not an object", path="$.params")
            notification = Notification(notice.method, members, bytes(params))
            for each in self._notification_handlers:
                await self._run(each, notification)

    async def _report(self, progress: ProgressNotificationParams) -> None:
        call = self._requests.connection.reported(progress.progress_token)
        if call is None or not call.is_heard:
            return  # given up or failed while this waited here
        if call.on_progress is not None:
            await self._run(call.on_progress, progress)
        for handler in self._requests.progress_handlers:
            await self._run(handler, progress)

    async def _run(self, handler: Callable[[Any], object], argument: object) -> None:
        try:
            answer = handler(argument)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # the edge of the user's handler
            logger.exception("%s: a handler raised", self.settings.name)

    def _note_transition(self, transition: e.Transition) -> None:
        if self._on_state is not None:
            self._on_state(transition.target)
        if self.wire.on_state is not None:
            self.wire.on_state(transition.target)
        if transition.target == "ready":
            if self._notification_handlers or self.wire.on_message is not None:
                self._subscriptions.want_lists()
            return
        if transition.target in ("backoff", "closing", "closed"):
            self.cache.clear()
        if transition.target in ("closing", "closed"):
            self._subscriptions.closed(transition.reason or ShutdownError())


def _implementation(info: bytes) -> Implementation | None:
    """For display, so what is wrong with it keeps nobody from the server: the name and version that can be read."""
    if info == b"{}":
        return None
    try:
        return decode(Implementation, info)
    except ProtocolError:
        members = msgspec.json.decode(info, type=dict[str, msgspec.Raw])
        name, version = (_text(members.get(key)) for key in ("name", "version"))
        return Implementation(name=name, version=version) if name or version else None


def _text(value: msgspec.Raw | None) -> str:
    try:
        return "" if value is None else msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return ""


def _check_seconds(seconds: object, name: str) -> None:
    """Raises: UsageError."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and not math.isnan(seconds)
    if seconds is not None and not is_number:  # what is left of a deadline may be less than nothing
        raise UsageError(f"{name} must be a number of seconds, or None, not {seconds!r}", path=name)


def _plain(error: McpError) -> McpError:
    """The reason itself: whoever opens wants to know why it failed, not that it is closed or late."""
    reason = getattr(error, "reason", None) or error.__cause__
    return reason if isinstance(reason, McpError) else error
