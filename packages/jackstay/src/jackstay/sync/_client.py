"""The blocking API: derived from the async classes; only what differs is written here.

Any number of threads may use it. Handlers run on the thread of the event loop and must not block; blocking calls of
this API raise StateError there.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar, Unpack

from jackstay import client as async_api
from jackstay import models
from jackstay._signatures import shows
from jackstay.client import CallOptions
from jackstay.errors import ClosedError, Json, McpError, ShutdownError, UsageError
from jackstay.protocol.client import ClientKeywords
from jackstay.sync._derive import Blocking, like
from jackstay.sync._portal import ClientPortal
from jackstay.types import Tool

R = TypeVar("R")


class Tools(Blocking, source=async_api.Tools, inline=("session_mode",)):
    @like(async_api.Tools.start)
    def start(self, *args: Any, **kwargs: Any) -> "TaskHandle":
        return TaskHandle(self._client_portal.wait(self._async.start, *args, **kwargs), self._client_portal)


class TaskHandle(Blocking, source=async_api.TaskHandle):
    """A tool call that runs as a task. `result()` waits for its result."""


class Tasks(Blocking, source=async_api.Tasks):
    """The tasks of a client."""

    @like(async_api.Tasks.attach)
    def attach(self, id: str, tool: str = "") -> TaskHandle:
        return TaskHandle(self._async.attach(id, tool), self._client_portal)

    @like(async_api.Tasks.pending)
    def pending(self) -> list[TaskHandle]:
        found = self._client_portal.wait(self._async.pending)
        return [TaskHandle(handle, self._client_portal) for handle in found]


class Resources(Blocking, source=async_api.Resources): ...


class Skills(Blocking, source=async_api.Skills): ...


class Apps(Blocking, source=async_api.Apps): ...


class Prompts(Blocking, source=async_api.Prompts): ...


class Completions(Blocking, source=async_api.Completions): ...


class Logging(Blocking, source=async_api.Logging): ...


class Sampling(Blocking, source=async_api.Sampling, inline=("handle",)): ...


class Elicitation(Blocking, source=async_api.Elicitation, inline=("handle",)): ...


class Roots(Blocking, source=async_api.Roots): ...


class Call(Generic[R]):
    """One request in flight: wait for it with `result()`, or call `cancel()`."""

    def __init__(self, client_portal: ClientPortal, call: async_api.Call[R]) -> None:
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

    @like(async_api.Call.cancel)
    def cancel(self) -> bool:
        return self._client_portal.portal.run_on_loop(self._call.cancel)


class _Openable(Blocking):
    """What `Client` and `Fleet` share: `with`, and the portal runs while they are open."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def open(self, **kwargs: Any) -> None:
        is_registered = self._portal.register(self._async, self._async.stop)
        try:
            self._portal.wait(self._async.open, **kwargs)
        except BaseException:
            if is_registered:  # not for a second `open()`, which raises and changes nothing
                self._mark_closed()
            raise

    def stop(self, *args: Any, **kwargs: Any) -> None:
        self._portal.wait(self._async.stop, *args, **kwargs)
        self._mark_closed()

    def _mark_closed(self) -> None:
        """Store why this closed, so that later calls fail with it without an event loop."""
        self._client_portal.closed_by = self._portal.wait(self._close_reason)
        self._portal.unregister(self._async)

    async def _close_reason(self) -> McpError | None:
        """Return the error that closed this, or None if it is not closed."""
        raise NotImplementedError


class Client(_Openable, source=async_api.Client, inline=("state", "on_progress", "on_event", "trace_with")):
    """A blocking client that reconnects automatically. Safe to share between threads; create it with `connect()`.

    Ctrl-C while a method waits cancels the request at the server. Handlers run on the event loop thread.
    """

    _omitted = ("forwarding",)  # for proxies, which cannot forward messages while they block

    def __init__(self, client: async_api.Client) -> None:
        super().__init__(client, ClientPortal())

    @shows("jackstay.client:CallOptions")
    def submit(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[CallOptions]
    ) -> Call[dict[str, Json]]:
        """Send any request and return at once; `result()` of the call waits for the result as plain JSON."""
        call = self._client_portal.submit(lambda: self._async.submit(method, params, **options))
        return Call(self._client_portal, call)

    async def _close_reason(self) -> McpError | None:
        if self._async.state == "closed":
            try:
                await self._async.ready()
            except ClosedError as error:
                return error.reason
        return None


@like(async_api.connect)
def connect(target: async_api.Connectable, **options: Unpack[ClientKeywords]) -> Client:
    return Client(async_api.connect(target, **options))


class Fleet(_Openable, source=async_api.Fleet, inline=("states", "names", "name_of")):
    @like(async_api.Fleet.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._bind(async_api.Fleet(*args, **kwargs), ClientPortal())

    def _bind(self, async_object: Any, client_portal: ClientPortal) -> None:
        super()._bind(async_object, client_portal)
        self._clients = {name: Client(async_object[name]) for name in async_object}

    def __getitem__(self, name: str) -> Client:
        return self._clients[name]

    def _mark_closed(self) -> None:
        for client in self._clients.values():
            client._mark_closed()
        super()._mark_closed()

    async def _close_reason(self) -> McpError | None:
        return None if "new" in self._async.states.values() else ShutdownError("the fleet was stopped")


class Toolbox(Blocking, source=models.Toolbox, inline=("names", "tools", "calls", "messages")):
    def __init__(
        self, source: Client | Fleet, shape: str, *, strict: bool = False, only: Callable[[Tool], object] | None = None
    ) -> None:
        if not isinstance(source, Client | Fleet):
            raise UsageError(
                "Toolbox() expected a Client or a Fleet of jackstay.sync, got "
                f"{type(source).__module__}.{type(source).__name__}; for jackstay.client use jackstay.models.Toolbox",
                path="source",
            )
        toolbox = models.Toolbox(source._async, shape, strict=strict, only=only)
        self._bind(toolbox, source._client_portal)
