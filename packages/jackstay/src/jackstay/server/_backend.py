"""Backends: the state that the workers of a server share, in one object: sessions, events, the bus, limits and tasks.

`jackstay.testing.backend_suite` has tests for implementations. The default is the memory of one process.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from jackstay.errors import UsageError
from jackstay.server._changes import BusLink, ChangeBus, ChangeListener, MemoryChanges, WorkerBus
from jackstay.server._lifetime import Lifetime

if TYPE_CHECKING:
    from jackstay.server._middleware import MiddlewareStore
    from jackstay.server._server import Server
    from jackstay.server._task_store import TaskStore
    from jackstay.server.http import EventStore, SessionStore


class Backend(Protocol):
    """What workers share. `Server(backend=...)` opens it before the first client is served, on the server's loop."""

    @property
    def sessions(self) -> "SessionStore":
        """The sessions, for an endpoint with `sessions=True`."""

    @property
    def events(self) -> "EventStore":
        """The events of resumable streams, for such an endpoint."""

    @property
    def changes(self) -> WorkerBus:
        """The bus between the workers."""

    @property
    def limits(self) -> "MiddlewareStore":
        """The counters of rate limits and the results of caches, unless they have a `store` of their own."""

    @property
    def tasks(self) -> "TaskStore":
        """The tasks, unless `Tasks` has a `store` of its own. A server with tasks opens it after the backend."""

    @property
    def problem(self) -> str:
        """Why the backend cannot be used now, or an empty string. Never waits: it is part of `/health`."""

    async def open(self, name: str) -> None:
        """Connect. Servers with the same name share their state. Raises: UsageError if it can never work."""

    async def close(self) -> None:
        """Send what was published, and disconnect. The backend can be opened again."""


class MemoryBackend:
    """A backend in the memory of one process."""

    problem = ""

    def __init__(self) -> None:
        from jackstay.server._middleware import MemoryMiddlewareStore  # noqa: PLC0415  # few servers have both
        from jackstay.server._task_store import MemoryTaskStore  # noqa: PLC0415  # as above
        from jackstay.server.http import (  # noqa: PLC0415  # a server over stdio does not load them
            MemoryEventStore,
            MemorySessionStore,
        )

        self.sessions = MemorySessionStore()
        self.events = MemoryEventStore()
        self.changes = MemoryChanges()
        self.limits = MemoryMiddlewareStore()
        self.tasks = MemoryTaskStore()

    def __repr__(self) -> str:
        return f"<MemoryBackend {self.sessions!r} {self.events!r} {self.changes!r}>"

    async def open(self, name: str) -> None:
        """Do nothing: memory is always there."""

    async def close(self) -> None:
        """Do nothing."""


def link_bus(
    name: str, backend: Backend | None, changes: ChangeBus | None, notify: ChangeListener, lifetime: Lifetime
) -> BusLink | None:
    """Connect a server to its backend and its bus while it runs. Returns None if it has no bus.

    Raises: UsageError for a backend and another bus.
    """
    if backend is None:
        return None if changes is None else BusLink(changes, notify, lifetime)
    if changes is not None:
        raise UsageError("pass changes or backend, not both: a backend has a bus", path="changes")
    lifetime.startup_hooks.append(partial(backend.open, name))
    link = BusLink(backend.changes, notify, lifetime)
    lifetime.final_hooks.append(backend.close)
    return link


def use_backend(server: "Server", backend: Backend, *, request_state_secrets: tuple[bytes, ...] = ()) -> None:
    """Make a server that was created without a backend use this one. The server must not run yet.

    `request_state_secrets` are for a server without its own.

    Raises: UsageError, if the server has a backend or a change bus.
    """
    if server._bus is not None:
        raise UsageError(f"the server {server.name!r} already has a backend or a change bus", path="backend")
    hooks = server._lifetime.startup_hooks
    others, hooks[:] = hooks[:], []  # the backend opens before everything that may use it
    server._backend = backend
    server._bus = link_bus(server.name, backend, None, server._notify, server._lifetime)
    hooks += others
    if request_state_secrets and not server.options.request_state_secrets:
        server.options = msgspec.structs.replace(server.options, request_state_secrets=request_state_secrets)
    if server._extensions is not None:
        server._extensions.use_backend(backend)


def share_bus(server: "Server", owner: "Server") -> None:
    """Connect a server to the bus of another one's backend, if it has one, and leave the backend to the other."""
    if owner._backend is not None:
        server._bus = BusLink(owner._backend.changes, server._notify, server._lifetime)


def with_stores(backend: Backend | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an endpoint with the stores of the backend, unless it has its own or no sessions."""
    if backend is None or not options.get("sessions"):
        return dict(options)
    return {"session_store": backend.sessions, "event_store": backend.events, **options}
