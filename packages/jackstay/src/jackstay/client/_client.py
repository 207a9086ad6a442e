"""`Client`: the public API, with one namespace per MCP feature.

It wires the parts together: the feature classes know their methods, the connection knows the wire.
"""

import asyncio
import builtins
import inspect
import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Self, TypeAlias, Unpack

import msgspec

from jackstay._signatures import shows
from jackstay.client._apps import Apps
from jackstay.client._call import Call
from jackstay.client._connect import Connectable, as_target, prepare
from jackstay.client._driver import Driver
from jackstay.client._features import Completions, Elicitation, Logging, Prompts, Roots, Sampling
from jackstay.client._forwarding import Forwarding
from jackstay.client._request_handlers import ClientRequestHandlers, check_callable
from jackstay.client._requests import CallOptions, ProgressHandler, Requests
from jackstay.client._resources import Resources
from jackstay.client._skills import Skills
from jackstay.client._subscriptions import Subscriptions
from jackstay.client._tasks import Tasks
from jackstay.client._telemetry import Listener, Telemetry, Trace
from jackstay.client._tools import Tools
from jackstay.errors import Json, McpError, ProtocolError, ShutdownError, StateError, TimeoutError, UsageError
from jackstay.extensions import check_extensions
from jackstay.protocol import Era
from jackstay.protocol.client import ClientKeywords, QueuedNotification, Settings
from jackstay.protocol.client import events as e
from jackstay.skills import SKILLS_EXTENSION
from jackstay.types import (
    TASKS_EXTENSION,
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
    """A notification from the server: `params` as plain JSON, `raw` as received."""

    method: str
    params: dict[str, Json]
    raw: bytes = b"{}"


# Called for each notification, sync or async.
NotificationHandler: TypeAlias = Callable[[Notification], object | Awaitable[object]]


class Client:
    """A client that reconnects automatically. Safe to share between the tasks of one event loop.

    `Client(target, **options)` is the same as `connect(target, **options)`. `settings` are all options as one object.
    `rng` provides backoff jitter and correlation ids; pass one for reproducible runs.

    Raises: as `connect()`.
    """

    @shows("jackstay.protocol.client:Settings")
    def __init__(
        self,
        target: Connectable,
        settings: Settings | None = None,
        *,
        rng: random.Random | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        if settings is None:
            target, settings = prepare(target, options)
        elif options:
            raise UsageError(f"pass either settings or options, not both: {', '.join(options)}", path="settings")
        else:
            target = as_target(target)
        self.settings = settings
        self._target = target
        # Set by a fleet: called with every new state.
        self._on_state: Callable[[str], None] | None = None
        self._rng = rng
        self._telemetry = Telemetry(settings.name)
        self._request_handlers = ClientRequestHandlers()
        self._requests = Requests(self._request_handlers)
        self.cache = self._requests.cache
        self._subscriptions = Subscriptions(self._requests)
        self._connection: Driver | None = None
        self._notification_handlers: list[NotificationHandler] = []
        self._extensions = check_extensions(settings.extensions)
        self._requests.completions = {
            name: partial(handler, self) for row in self._extensions for name, handler in row.result_types.items()
        }
        self.tasks = Tasks(self._requests, settings.task_log, settings.name)
        self.tools = Tools(self._requests, self.tasks)
        self.resources = Resources(self._requests, self._subscriptions)
        self.skills = Skills(self._requests, self.resources)
        self.apps = Apps(self.tools, self.resources)
        self.prompts = Prompts(self._requests)
        self.sampling = Sampling(self._requests)
        self.roots = Roots(self._requests)
        self.elicitation = Elicitation(self._requests)
        self.logging = Logging(self._requests)
        self.completion = Completions(self._requests)
        self.forwarding = Forwarding(self._requests)

    def __repr__(self) -> str:
        return f"<Client {self.settings.name} {self.state}>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def open(self, *, wait: bool = True) -> None:
        """Connect. With `wait`, return when the client is ready; otherwise return at once, and `ready()` waits.

        A client can be opened only once.

        Raises: the most recent connection error, with exit code and stderr tail, after `max_attempts`, a permanent
        failure or `open_timeout`, whichever comes first. Nothing is left running then.
        """
        if self._connection is not None:
            raise StateError(self.state, message="this client was already opened; create a new one with connect()")
        settings = self.settings
        capabilities = settings.capabilities
        is_derived = capabilities is None
        if capabilities is None:
            capabilities = self._request_handlers.capabilities()
        if self._extensions:
            declared = {row.identifier: row.settings for row in self._extensions}
            known = capabilities.get("extensions")
            capabilities = {**capabilities, "extensions": {**(known if isinstance(known, dict) else {}), **declared}}
        settings = msgspec.structs.replace(settings, capabilities=capabilities)
        connection = Driver(self._target, settings, self._telemetry, self._rng)
        if is_derived:  # otherwise the client declares exactly what it was given
            connection.core.negotiation.offered = {TASKS_EXTENSION: {}, SKILLS_EXTENSION: {}}
        connection.on_arrival = self._on_arrival
        connection.on_notice = self._on_notice
        connection.on_request = self._request_handlers.handle
        connection.on_transition = self._on_transition
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
                    reason = _root_cause(error)
                    raise reason from reason.__cause__  # drop the wrapper from the traceback
                raise

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until the client is ready.

        Raises: the error that closed the client; TimeoutError after `timeout` seconds, with the most recent connection
        error as its cause.
        """
        connection = self._requests.connection
        _check_seconds(timeout, "timeout")
        try:
            await connection.ready(timeout)
        except McpError:
            raise
        except builtins.TimeoutError:
            cause = connection.core.cause
            reason = str(cause) if cause is not None else connection.core.transport.silence
            message = f"not ready within {timeout:g} s" + (f": {reason}" if reason else "")
            raise TimeoutError(timeout, sent=False, message=message) from cause

    async def stop(self, drain: float | None = None) -> None:
        """Close the client: pending calls fail with ShutdownError; returns when the server is closed.

        With `drain`, first wait up to that many seconds for pending calls; new calls fail with ShutdownError meanwhile.
        May be called repeatedly and concurrently, from any task.
        """
        _check_seconds(drain, "drain")
        connection = self._connection
        if connection is None:
            return
        if drain is not None:
            connection.check_loop()
            await self._drain(connection, drain)
        await connection.stop()

    async def _drain(self, connection: Driver, seconds: float) -> None:
        """Wait for pending calls and refuse new ones; accept them again if this wait is cancelled."""
        connection.step(e.DrainRequested())
        try:
            async with asyncio.timeout(seconds):
                while open_calls := connection.open_calls():
                    await asyncio.wait(open_calls)
        except builtins.TimeoutError:
            pass  # the drain time is over: `stop()` fails the remaining calls
        except BaseException:
            connection.step(e.DrainCancelled())
            raise

    # --- state and server information ---------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """`new`, `starting`, `initializing`, `ready`, `backoff`, `closing` or `closed`."""
        return "new" if self._connection is None else self._connection.core.state.value

    @property
    def server_info(self) -> Implementation | None:
        """Name and version of the server, or None if it sent none. Raises: StateError before the first ready."""
        return _implementation(self._requests.connection.server().info)

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """Capabilities of the server; while disconnected, those of the last connection.

        Raises: StateError before the first ready.
        """
        return self._requests.capabilities()

    @property
    def is_server_stale(self) -> bool:
        """True while the server information is from a lost connection. Raises: StateError before `open()`."""
        return self._requests.connection.core.is_stale

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version. Raises: StateError before the first ready."""
        return self._requests.connection.server().version

    @property
    def instructions(self) -> str:
        """Instructions of the server for the model. Raises: StateError before the first ready."""
        return self._requests.connection.server().instructions

    # --- handlers and listeners ---------------------------------------------------------------------------------------

    def on_notification(self, handler: NotificationHandler) -> NotificationHandler:
        """Call `handler(notification)`, sync or async, for each notification in order; usable as a decorator.

        This includes list changes: the client subscribes to them where the server is stateless.
        """
        check_callable(handler, "on_notification")
        self._notification_handlers.append(handler)
        if self.state == "ready":
            self._subscriptions.subscribe_to_lists()
        return handler

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """Call `handler(progress)` for each progress notification of any call; usable as a decorator.

        From now on every call requests progress, and progress extends the soft deadline of its call.
        """
        check_callable(handler, "on_progress")
        self._requests.progress_handlers.append(handler)
        return handler

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event. Returns a function that removes the listener."""
        check_callable(listener, "on_event")
        return self._telemetry.subscribe(listener)

    def trace_with(self, trace: Trace | None) -> None:
        """Create a span for every request and propagate it to the server: see `opentelemetry()`. None disables this."""
        self._requests.trace = trace

    # --- requests -----------------------------------------------------------------------------------------------------

    @shows("jackstay.client:CallOptions")
    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Send any request and return at once. Await the call for its result as plain JSON, or `cancel()` it."""
        return self._requests.submit(method, params or {}, options)

    @shows("jackstay.client:CallOptions")
    async def ping(self, **options: Unpack[CallOptions]) -> str:
        """Send the request that `keepalive` sends, wait for the response, and return the method that was used."""
        deadline = self._requests.deadline(options)
        connection = await self._requests.wait_until_ready(options, deadline)
        method = "server/discover" if connection.server().era is Era.STATELESS else "ping"
        result = DiscoverResult if method == "server/discover" else EmptyResult
        await self._requests.request(method, {}, result, options, deadline=deadline)
        return method

    # --- messages from the server -------------------------------------------------------------------------------------

    def _on_arrival(self, method: str, params: msgspec.Raw | None, call: Call[Any] | None) -> bool:
        """Process what must not wait behind a slow handler; return True if the notification is consumed.

        These are list changes, acknowledged subscriptions, tasks, and everything if notifications are forwarded.
        """
        self.cache.invalidate(method)
        is_task = method == "notifications/tasks"
        if is_task or method == "notifications/subscriptions/acknowledged":
            process = self.tasks._notified if is_task else self._subscriptions.acknowledged
            try:
                process(b"{}" if params is None else params)
            except McpError as error:
                logger.warning("%s: invalid %s: %s", self.settings.name, method, error)
            if not is_task:
                return True
        return self.forwarding.deliver(method, params, call)

    async def _on_notice(self, notice: QueuedNotification) -> None:
        params = notice.params or b"{}"
        if notice.method == "notifications/progress":
            await self._deliver_progress(decode(ProgressNotificationParams, params))
            return
        if notice.method == "notifications/resources/updated":
            update = decode(ResourceUpdatedNotificationParams, params)
            for handler in self._subscriptions.handlers_for(update):
                await self._run_handler(handler, update.uri)
        if self._notification_handlers:
            members = msgspec.json.decode(params)
            if not isinstance(members, dict):
                raise ProtocolError("params must be an object", path="$.params")
            notification = Notification(notice.method, members, bytes(params))
            for notification_handler in self._notification_handlers:
                await self._run_handler(notification_handler, notification)

    async def _deliver_progress(self, progress: ProgressNotificationParams) -> None:
        call = self._requests.connection.pop_reported_call(progress.progress_token)
        if call is None or not call.accepts_progress:
            return  # cancelled or failed while this notification waited in the inbox
        if (on_progress := call.options.get("on_progress")) is not None:
            await self._run_handler(on_progress, progress)
        for handler in self._requests.progress_handlers:
            await self._run_handler(handler, progress)

    async def _run_handler(self, handler: Callable[[Any], object], argument: object) -> None:
        try:
            result = handler(argument)
            if inspect.isawaitable(result):
                await result
        except Exception:  # user code: one failing handler must not stop the others
            logger.exception("%s: a handler raised an exception", self.settings.name)

    def _on_transition(self, transition: e.Transition) -> None:
        if self._on_state is not None:
            self._on_state(transition.target)
        if self.forwarding.on_state is not None:
            self.forwarding.on_state(transition.target)
        if transition.target == "ready":
            self._requests.negotiated()
            if self._notification_handlers or self.forwarding.on_message is not None:
                self._subscriptions.subscribe_to_lists()
            return
        if transition.target in ("backoff", "closing", "closed"):
            self.cache.clear()
        if transition.target in ("closing", "closed"):
            self._subscriptions.closed(transition.reason or ShutdownError())


def _implementation(info: bytes) -> Implementation | None:
    """Decode leniently, because it is only for display: keep the name and version if the rest is invalid."""
    if info == b"{}":
        return None
    try:
        return decode(Implementation, info)
    except ProtocolError:
        members = msgspec.json.decode(info, type=dict[str, msgspec.Raw])
        name, version = (_string(members.get(key)) for key in ("name", "version"))
        return Implementation(name=name, version=version) if name or version else None


def _string(value: msgspec.Raw | None) -> str:
    try:
        return "" if value is None else msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return ""


def _check_seconds(seconds: object, name: str) -> None:
    """Raises: UsageError."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and not math.isnan(seconds)
    if seconds is not None and not is_number:  # negative is allowed: the rest of a deadline that has passed
        raise UsageError(f"{name} must be a number of seconds or None, got {seconds!r}", path=name)


def _root_cause(error: McpError) -> McpError:
    """Return why opening failed, instead of the ClosedError or TimeoutError that wraps it."""
    reason = getattr(error, "reason", None) or error.__cause__
    return reason if isinstance(reason, McpError) else error
