"""`Client`: what a user holds. One namespace a feature, and the connection's own few words.

It knows how the parts hang together and nothing else: the features know their methods, the connection knows the wire.

Above: users, `_fleet`, `_sync`, the commands. Below: the features, `_requests`, `_connection`.
"""

import asyncio
import builtins
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

import msgspec

from mooring._version import __version__
from mooring.client._asking import Asking
from mooring.client._completion import Completions
from mooring.client._connection import Call, Connection
from mooring.client._elicitation import Elicitation
from mooring.client._lists import Cache
from mooring.client._logging import Logging
from mooring.client._prompts import Prompts
from mooring.client._requests import CallOptions, Requests
from mooring.client._resources import Resources
from mooring.client._roots import Roots
from mooring.client._sampling import Sampling
from mooring.client._telemetry import Listener, Telemetry
from mooring.client._tools import Tools
from mooring.errors import Json, McpError, TimeoutError, UsageError
from mooring.protocol.client import Notice, Settings
from mooring.protocol.client import events as e
from mooring.transport import Target
from mooring.types import (
    Implementation,
    NotificationMetaObject,
    ProgressNotificationParams,
    ResourceUpdatedNotificationParams,
    ServerCapabilities,
    SubscriptionsAcknowledgedNotificationParams,
    decode,
    from_json,
)

logger = logging.getLogger("mooring.client")


class Notification(msgspec.Struct, frozen=True):
    """A notification of the server's: `params` as plain JSON."""

    method: str
    params: dict[str, Json]


# Hears of notifications, sync or async.
NotificationHandler: TypeAlias = Callable[[Notification], object | Awaitable[object]]
# Hears of progress, sync or async.
ProgressHandler: TypeAlias = Callable[[ProgressNotificationParams], object | Awaitable[object]]


def connect(target: Target, **options: Any) -> "Client":
    """A client for this target; `options` are the settings of `docs/settings.md`. Open it with `async with`.

    Register handlers (`client.sampling.handle(...)`) before it is opened: what it declares to the server depends on
    them.

    Raises: UsageError for an option that is unknown or out of range.
    """
    options.setdefault("name", target.name)
    if target.init_timeout is not None:
        options.setdefault("init_timeout", target.init_timeout)
    options.setdefault("client_info", {"name": "mooring", "version": __version__})
    try:
        settings = Settings(**options)
    except TypeError as error:
        known = ", ".join(sorted(Settings.__struct_fields__))
        raise UsageError(f"{error}; the options are {known}") from error
    return Client(target, settings)


class Client:
    """A client that holds. Safe to share between tasks; make it with `connect()`."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self.settings = settings
        self.cache = Cache()
        self._target = target
        self._telemetry = Telemetry(settings.name)
        self._asking = Asking()
        self._requests = Requests(self._asking)
        self._connection: Connection | None = None
        self._notification_handlers: list[NotificationHandler] = []
        self._progress_handlers: list[ProgressHandler] = []
        self._idle: list[asyncio.Future[None]] = []
        self.tools = Tools(self._requests, self.cache)
        self.resources = Resources(self._requests, self.cache)
        self.prompts = Prompts(self._requests, self.cache)
        self.sampling = Sampling(self._asking, self._requests)
        self.roots = Roots(self._asking, self._requests)
        self.elicitation = Elicitation(self._asking)
        self.logging = Logging(self._requests)
        self.completion = Completions(self._requests)

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
        """Connect. With `wait` it returns when ready; otherwise at once, and `ready()` waits.

        Raises: the newest cause, with exit code and stderr tail, when it cannot be done: after `max_attempts`, a permanent
        failure or `open_timeout`, whichever is first. Nothing is left running then.
        """
        settings = self.settings
        if settings.capabilities is None:
            settings = msgspec.structs.replace(settings, capabilities=self._asking.capabilities())
        connection = Connection(self._target, settings, self._telemetry)
        connection.on_notice = self._take_notice
        connection.on_request = self._asking.answer
        connection.on_transition = self._note_transition
        connection.on_subscription_end = self.resources.ended
        if self._connection is not None:
            self._connection.start()  # raises: a connection is opened once
        self._connection = connection
        self._requests.attach(connection)
        connection.start()
        if wait:
            try:
                await self.ready(settings.open_timeout)
            except BaseException as error:  # noqa: BLE001  # cancelled or failed: nothing may be left running
                await asyncio.shield(self.stop())
                raise _plain(error) from error.__cause__

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until calls can be made.

        Raises: the error that closed it; TimeoutError after `timeout` seconds, with the newest cause as its cause.
        """
        connection = self._requests.connection
        try:
            await connection.ready(timeout)
        except TimeoutError:
            raise
        except builtins.TimeoutError:
            cause = connection.core.cause
            said = f"not ready within {timeout:g} s" + (f": {cause}" if cause is not None else "")
            raise TimeoutError(timeout, sent=False, message=said) from cause

    async def stop(self, drain: float | None = None) -> None:
        """End it: open calls fail with ShutdownError, the server is closed, and this returns when it is gone.

        `drain` waits that many seconds for open calls first. May be called by many, and again.
        """
        if self._connection is None:
            return
        if drain is not None:
            await self._drained(drain)
        await self._connection.stop()

    async def _drained(self, seconds: float) -> None:
        assert self._connection is not None  # `stop()` looked
        try:
            async with asyncio.timeout(seconds):
                while open_calls := self._connection.open_calls():
                    await asyncio.wait(open_calls)
        except builtins.TimeoutError:
            pass  # as long as was asked for: the rest is ended by stopping

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """`new`, `starting`, `initializing`, `ready`, `backoff`, `closing` or `closed`."""
        return "new" if self._connection is None else self._connection.core.state.value

    @property
    def server_info(self) -> Implementation | None:
        """What the server calls itself; None where a stateless server did not say. Raises: StateError before ready."""
        info = self._requests.connection.server().info
        return None if info == b"{}" else decode(Implementation, info)

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server offers. After a loss: what it last offered. Raises: StateError before the first ready."""
        return self._requests.capabilities()

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
        """Call `handler(notification)` for each, one at a time and in order; sync or async; usable as a decorator."""
        self._notification_handlers.append(handler)
        return handler

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """Call `handler(progress)` whenever a call made with `on_progress` reports; usable as a decorator."""
        self._progress_handlers.append(handler)
        return handler

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event; call what is returned to end that."""
        return self._telemetry.subscribe(listener)

    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Make a request and return at once: `.id` is its id, `await .future` its result as plain JSON."""
        return self._requests.submit(method, params or {}, options)

    # --- what arrives -------------------------------------------------------------------------------------------------

    async def _take_notice(self, notice: Notice) -> None:
        try:
            await self._dispatch(notice)
        except McpError as error:
            logger.warning("%s: %s cannot be read: %s", self.settings.name, notice.method, error)

    async def _dispatch(self, notice: Notice) -> None:
        params = notice.params or b"{}"
        if notice.method == "notifications/progress":
            await self._report(decode(ProgressNotificationParams, params), params)
            return
        self.cache.changed(notice.method)
        if notice.method == "notifications/subscriptions/acknowledged":
            self._acknowledge(decode(SubscriptionsAcknowledgedNotificationParams, params))
            return
        if notice.method == "notifications/resources/updated":
            uri = decode(ResourceUpdatedNotificationParams, params).uri
            handler = self.resources.handlers.get(uri)
            if handler is not None:
                await self._run(handler, uri)
        if self._notification_handlers:
            notification = Notification(notice.method, msgspec.json.decode(params))
            for each in self._notification_handlers:
                await self._run(each, notification)

    async def _report(self, progress: ProgressNotificationParams, raw: bytes) -> None:
        token = progress.progress_token
        call = self._requests.connection.reported(token) if isinstance(token, int) else None
        if call is None or call.future.done():
            return  # it was answered while this waited here
        if call.on_progress is not None:
            await self._run(call.on_progress, msgspec.Raw(raw))
        for handler in self._progress_handlers:
            await self._run(handler, progress)

    def _acknowledge(self, params: SubscriptionsAcknowledgedNotificationParams) -> None:
        meta = from_json(NotificationMetaObject, dict(params.meta or {}))
        id = meta.subscription_id
        key = self._requests.connection.standing_key(id) if isinstance(id, int) else None
        if key is not None:
            self.resources.acknowledged(key, honoured=bool(params.notifications.resource_subscriptions))

    async def _run(self, handler: Callable[[Any], object], argument: object) -> None:
        try:
            answer = handler(argument)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # the edge of the user's handler
            logger.exception("%s: a handler raised", self.settings.name)

    def _note_transition(self, transition: e.Transition) -> None:
        if transition.target in ("backoff", "closed"):
            self.cache.clear()


def _plain(error: BaseException) -> BaseException:
    """The reason itself: whoever opens wants to know why, not that it is closed."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, McpError) else error
