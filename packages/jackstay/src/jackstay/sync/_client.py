"""`Client`, blocking: the face of `jackstay.client.Client` for code that has no event loop, or does not want to know of it.

Every client of a process lives on the one loop behind `_portal`; a client here holds an async one and brings calls to it.
Any number of threads may use it. Handlers run on the loop's thread: they must not wait, and must not make blocking calls,
which are refused there.

Above: users, `_fleet`. Below: `_portal`, `_features`, `jackstay.client`.
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
from jackstay.sync._portal import Passage
from jackstay.transport import Target
from jackstay.types import Implementation, ServerCapabilities

R = TypeVar("R")


def connect(target: Target, **options: Unpack[ClientKeywords]) -> "Client":
    """A client for this target; `options` are the settings of `docs/settings.md`. Open it with `with`.

    Register handlers (`client.sampling.handle(...)`) before it is opened: what it declares to the server depends on
    them.

    Raises: UsageError for an option that is unknown or out of range.
    """
    return Client(connect_async(target, **options))


class Call(Generic[R]):
    """One call under way: wait for it with `result()`, or give it up with `cancel()`."""

    def __init__(self, passage: Passage, call: AsyncCall[R]) -> None:
        self._passage = passage
        self._call = call

    def __repr__(self) -> str:
        return repr(self._call)

    @property
    def id(self) -> int:
        """The id of its request; it changes if the call is sent again after a loss. 0: it was never accepted."""
        return self._call.id

    @property
    def method(self) -> str:
        """What was asked."""
        return self._call.method

    def result(self) -> R:
        """Wait for it. Ctrl-C while waiting gives it up.

        Raises: as every request; after `cancel()` ShutdownError, whose `may_have_run` is False if nothing was written.
        """

        async def awaited() -> R:
            try:
                return await self._call
            except asyncio.CancelledError:
                if not self._call.future.cancelled():
                    raise
                cancelled = ShutdownError("the call was cancelled", sent=self._call.may_have_run)
                raise cancelled.about(self._call.method, self._call.id) from None

        return self._passage.portal.wait(awaited)

    def cancel(self) -> bool:
        """Give it up: if it was written, the server is told, once. False: it had ended before."""
        return self._passage.portal.ask(self._call.cancel)


class Client:
    """A client that holds, for blocking code. Safe to share between threads; make it with `connect()`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._passage = Passage()
        self._portal = self._passage.portal
        self.tools = Tools(self._passage, client.tools)
        self.resources = Resources(self._passage, client.resources)
        self.prompts = Prompts(self._passage, client.prompts)
        self.sampling = Sampling(self._passage, client.sampling)
        self.roots = Roots(self._passage, client.roots)
        self.elicitation = Elicitation(client.elicitation)
        self.logging = Logging(self._passage, client.logging)
        self.completion = Completions(self._passage, client.completion)

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
        """Connect. With `wait` it returns when ready; otherwise at once, and `ready()` waits.

        Raises: the newest cause, with exit code and stderr tail, when it cannot be done: after `max_attempts`, a permanent
        failure or `open_timeout`, whichever is first. Nothing is left running then.
        """
        is_ours = self._portal.hold(self._client, self._client.stop)
        try:
            self._portal.wait(self._client.open, wait=wait)
        except BaseException:
            if is_ours:  # not at a second `open()`, which is refused and changes nothing
                self._shut()
            raise

    def ready(self, timeout: float | None = None) -> None:
        """Wait until calls can be made.

        Raises: the error that closed it; TimeoutError after `timeout` seconds, with the newest cause as its cause.
        """
        self._passage.wait(self._client.ready, timeout)

    def stop(self, drain: float | None = None) -> None:
        """End it: open calls fail with ShutdownError, the server is closed, and this returns when it is gone.

        `drain` waits that many seconds for open calls first. May be called by many, and again.
        """
        self._portal.wait(self._client.stop, drain)
        self._shut()

    def _shut(self) -> None:
        """It has ended: calls fail with the reason from now on, without the loop that it lived on."""
        self._passage.end = self._portal.wait(why_closed, self._client)
        self._portal.drop(self._client)

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings it was made with."""
        return self._client.settings

    @property
    def cache(self) -> Cache:
        """The lists that the server allowed to keep: `cache.clear()` forgets them."""
        return self._client.cache

    @property
    def state(self) -> str:
        """`new`, `starting`, `initializing`, `ready`, `backoff`, `closing` or `closed`."""
        return self._client.state

    @property
    def server_info(self) -> Implementation | None:
        """What the server calls itself; None where it did not say. Raises: StateError before ready."""
        return self._portal.ask(lambda: self._client.server_info)

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server offers. After a loss: what it last offered. Raises: StateError before the first ready."""
        return self._portal.ask(lambda: self._client.server_capabilities)

    @property
    def is_server_stale(self) -> bool:
        """True where what is known of the server is from before the last loss. Raises: StateError before `open()`."""
        return self._portal.ask(lambda: self._client.is_server_stale)

    @property
    def protocol_version(self) -> str:
        """The revision agreed on. Raises: StateError before the first ready."""
        return self._portal.ask(lambda: self._client.protocol_version)

    @property
    def instructions(self) -> str:
        """What the server wants its user to know. Raises: StateError before the first ready."""
        return self._portal.ask(lambda: self._client.instructions)

    # --- listening ----------------------------------------------------------------------------------------------------

    def on_notification(self, handler: NotificationHandler) -> NotificationHandler:
        """Call `handler(notification)` for each, in order, on the loop's thread; usable as a decorator."""
        return self._portal.ask(self._client.on_notification, handler)  # it may subscribe to the lists

    def on_progress(self, handler: ProgressHandler) -> ProgressHandler:
        """Call `handler(progress)` whenever a call reports, on the loop's thread; usable as a decorator."""
        return self._client.on_progress(handler)

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(name, fields)` for every telemetry event, on the loop's thread; call what is returned to end that."""
        unsubscribe = self._portal.ask(self._client.on_event, listener)
        return lambda: self._portal.ask(unsubscribe)

    def trace_with(self, trace: Trace | None) -> None:
        """Make a span of every request, and hand its trace on to the server: see `opentelemetry()`. None ends that."""
        self._client.trace_with(trace)

    # --- asking -------------------------------------------------------------------------------------------------------

    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Make a request and return at once: `.id` is its id, `.result()` waits for its result as plain JSON."""
        return Call(self._passage, self._passage.submit(self._client.submit, method, params, **options))

    def ping(self, **options: Unpack[CallOptions]) -> str:
        """Ask for a sign of life with what `keepalive` would send, and return which method that was."""
        return self._passage.wait(self._client.ping, **options)


async def why_closed(client: AsyncClient) -> McpError | None:
    """The error that closed this client; None if it is not closed."""
    if client.state == "closed":
        try:
            await client.ready()
        except ClosedError as error:
            return error.reason
    return None
