"""The blocking `Client`: wraps `jackstay.client.Client` and runs its coroutines on the event loop of `_portal`.

Any number of threads may use it. Handlers run on the thread of the event loop and must not block; blocking calls of
this API raise StateError there.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from jackstay.client import Cache, CallOptions, Listener, NotificationHandler, ProgressHandler, Trace
from jackstay.client import Call as AsyncCall
from jackstay.client import Client as AsyncClient
from jackstay.client import connect as connect_async
from jackstay.errors import ClosedError, Json, McpError, ShutdownError
from jackstay.protocol.client import ClientKeywords, Settings
from jackstay.sync._features import (
    Completions,
    Elicitation,
    Logging,
    Prompts,
    Resources,
    Roots,
    Sampling,
    Tools,
)
from jackstay.sync._portal import ClientPortal
from jackstay.transport import Target
from jackstay.types import Implementation, ServerCapabilities

R = TypeVar("R")


def connect(target: Target | str, **options: Unpack[ClientKeywords]) -> "Client":
    """Return a client for `target`: a URL, or a target such as `stdio(...)` or `http(...)`. Open it with `with`.

    `options` are the settings of `docs/settings.md`. Register handlers (`client.sampling.handle(...)`) before the
    client is opened, because they determine the capabilities that it declares.

    Raises: UsageError for an invalid target, an unknown option or a bad value.
    """
    return Client(connect_async(target, **options))


class Call(Generic[R]):
    """One request in flight: wait for it with `result()`, or call `cancel()`."""

    def __init__(self, client_portal: ClientPortal, call: AsyncCall[R]) -> None:
        self._client_portal = client_portal
        self._call = call

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def id(self) -> int:
        """The id of the request.

        It changes if the request is replayed after a reconnect; 0 if it was never accepted.
        """
        return self._call.id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._call.method

    def result(self) -> R:
        """Wait for the result. Ctrl-C cancels the call.

        Raises: as every request; after `cancel()` ShutdownError, whose `may_have_run` is False if nothing was sent.
        """

        async def awaited() -> R:
            try:
                return await self._call
            except asyncio.CancelledError:
                if not self._call.future.cancelled():
                    raise
                cancelled = ShutdownError("the call was cancelled", sent=self._call.may_have_run)
                raise cancelled.about(self._call.method, self._call.id) from None

        return self._client_portal.portal.wait(awaited)

    def cancel(self) -> bool:
        """Cancel the call. If the request was written, the server gets one `notifications/cancelled`.

        Returns False if the call had already ended.
        """
        return self._client_portal.portal.run_on_loop(self._call.cancel)


class Client:
    """A blocking client that reconnects automatically. Safe to share between threads; create it with `connect()`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._client_portal = ClientPortal()
        self._portal = self._client_portal.portal
        self.tools = Tools(self._client_portal, client.tools)
        self.resources = Resources(self._client_portal, client.resources)
        self.prompts = Prompts(self._client_portal, client.prompts)
        self.sampling = Sampling(self._client_portal, client.sampling)
        self.roots = Roots(self._client_portal, client.roots)
        self.elicitation = Elicitation(client.elicitation)
        self.logging = Logging(self._client_portal, client.logging)
        self.completion = Completions(self._client_portal, client.completion)

    def __repr__(self) -> str:
        return f"<sync.Client {self.settings.name} {self.state}>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def open(self, *, wait: bool = True) -> None:
        """Connect. With `wait`, return when the client is ready; otherwise return at once, and `ready()` waits.

        Raises: the most recent connection error, with exit code and stderr tail, after `max_attempts`, a permanent
        failure or `open_timeout`, whichever comes first. Nothing is left running then.
        """
        is_registered = self._portal.register(self._client, self._client.stop)
        try:
            self._portal.wait(self._client.open, wait=wait)
        except BaseException:
            if is_registered:  # not for a second `open()`, which raises and changes nothing
                self._mark_closed()
            raise

    def ready(self, timeout: float | None = None) -> None:
        """Wait until the client is ready.

        Raises: the error that closed the client; TimeoutError after `timeout` seconds, with the most recent connection
        error as its cause.
        """
        self._client_portal.wait(self._client.ready, timeout)

    def stop(self, drain: float | None = None) -> None:
        """Close the client: pending calls fail with ShutdownError; returns when the server is closed.

        With `drain`, first wait up to that many seconds for pending calls. May be called repeatedly and concurrently.
        """
        self._portal.wait(self._client.stop, drain)
        self._mark_closed()

    def _mark_closed(self) -> None:
        """Store why the client closed, so that later calls fail with it without an event loop."""
        self._client_portal.closed_by = self._portal.wait(close_reason, self._client)
        self._portal.unregister(self._client)

    # --- state and server information ---------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings of this client."""
        return self._client.settings

    @property
    def cache(self) -> Cache:
        """The cache of lists: `cache.clear()` empties it."""
        return self._client.cache

    @property
    def state(self) -> str:
        """`new`, `starting`, `initializing`, `ready`, `backoff`, `closing` or `closed`."""
        return self._client.state

    @property
    def server_info(self) -> Implementation | None:
        """Name and version of the server, or None if it sent none. Raises: StateError before the first ready."""
        return self._portal.run_on_loop(lambda: self._client.server_info)

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """Capabilities of the server; while disconnected, those of the last connection.

        Raises: StateError before the first ready.
        """
        return self._portal.run_on_loop(lambda: self._client.server_capabilities)

    @property
    def is_server_stale(self) -> bool:
        """True while the server information is from a lost connection. Raises: StateError before `open()`."""
        return self._portal.run_on_loop(lambda: self._client.is_server_stale)

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version. Raises: StateError before the first ready."""
        return self._portal.run_on_loop(lambda: self._client.protocol_version)

    @property
    def instructions(self) -> str:
        """Instructions of the server for the model. Raises: StateError before the first ready."""
        return self._portal.run_on_loop(lambda: self._client.instructions)

    # --- handlers and listeners ---------------------------------------------------------------------------------------

    def on_notification(self, handler: NotificationHandler) -> NotificationHandler:
        """Call `handler(notification)` for each notification, on the event loop thread; usable as a decorator."""
        return self._portal.run_on_loop(self._client.on_notification, handler)  # it may subscribe to the lists

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """Call `handler(progress)` for each progress notification, on the event loop thread; usable as a decorator."""
        return self._client.on_progress(handler)

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event, on the event loop thread.

        Returns a function that removes the listener.
        """
        unsubscribe = self._portal.run_on_loop(self._client.on_event, listener)
        return lambda: self._portal.run_on_loop(unsubscribe)

    def trace_with(self, trace: Trace | None) -> None:
        """Create a span for every request and propagate it to the server: see `opentelemetry()`. None disables this."""
        self._client.trace_with(trace)

    # --- requests -----------------------------------------------------------------------------------------------------

    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Send any request and return at once; `result()` of the call waits for the result as plain JSON."""
        return Call(self._client_portal, self._client_portal.submit(self._client.submit, method, params, **options))

    def ping(self, **options: Unpack[CallOptions]) -> str:
        """Send the request that `keepalive` sends, wait for the response, and return the method that was used."""
        return self._client_portal.wait(self._client.ping, **options)


async def close_reason(client: AsyncClient) -> McpError | None:
    """Return the error that closed this client, or None if it is not closed."""
    if client.state == "closed":
        try:
            await client.ready()
        except ClosedError as error:
            return error.reason
    return None
