"""The change bus: carries notifications of changes between the worker processes of a server.

Each worker publishes its changes and notifies its own clients of the changes of all workers. Workers that share
sessions also use it to notify each other. A single process needs no bus. `jackstay.testing.store_suites` has tests for
implementations.
"""

import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from jackstay.server._lifetime import Lifetime

# Called with the method of the notification and the URI of the resource (empty for a changed list).
ChangeListener: TypeAlias = Callable[[str, str], None]

# Messages between workers, which are not for clients, have methods that begin with this.
WORKER_METHOD = "jackstay/"

# A bus calls its listeners with this method, and no URI, if messages may have been lost: anything may have changed.
GAP = f"{WORKER_METHOD}gap"


class ChangeBus(Protocol):
    """Carries changes to the servers that listen, in this process and in others."""

    def publish(self, method: str, uri: str) -> None:
        """Call every listener, in this process too. Thread-safe. Must not wait for the network."""

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` for every change, in any thread. Returns a function that removes it."""


class WorkerBus(ChangeBus, Protocol):
    """A bus that also has a mailbox for each worker, and lists which workers are alive."""

    async def flush(self) -> None:
        """Wait until what was published before is on the bus. Returns after a while even if it is not."""

    def join(self, worker: str) -> None:
        """Call the listeners also for what is sent to this worker, which is alive from now on until the bus closes."""

    async def send(self, worker: str, method: str, text: str) -> bool:
        """Call the listeners in the process of one worker. Returns False if it is gone.

        Raises: TransportError if that cannot be found out now.
        """

    async def is_gone(self, worker: str) -> bool:
        """Return whether a worker has certainly died."""


class MemoryChanges:
    """A bus between the servers of one process."""

    # Whether it reaches other processes. A bus without this attribute does.
    is_shared = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[ChangeListener, ...] = ()
        self._workers: set[str] = set()

    def __repr__(self) -> str:
        return f"<MemoryChanges, {len(self._listeners)} listeners>"

    def publish(self, method: str, uri: str) -> None:
        """Call every listener."""
        for listener in self._listeners:
            listener(method, uri)

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` for every change. Returns a function that removes it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    async def flush(self) -> None:
        """Do nothing: what was published has been delivered."""

    def join(self, worker: str) -> None:
        """Accept what is sent to this worker."""
        self._workers.add(worker)

    async def send(self, worker: str, method: str, text: str) -> bool:
        """Call every listener, if there is such a worker."""
        is_known = worker in self._workers
        if is_known:
            self.publish(method, text)
        return is_known

    async def is_gone(self, worker: str) -> bool:
        """Return whether there is no such worker."""
        return worker not in self._workers


class WorkerListener(Protocol):
    """Receives the messages between workers."""

    def receive_published(self, method: str, text: str) -> None:
        """Receive a message, also of this worker. Thread-safe."""


class BusLink:
    """Connects a server to its bus while the server runs.

    Not before: a server registers its tools in every process that imports the program, also in the supervisor of the
    workers, which is not a change for the clients of the workers that run.
    """

    def __init__(self, bus: ChangeBus, notify: ChangeListener, lifetime: Lifetime) -> None:
        self._bus = bus
        self._notify = notify
        self._lifetime = lifetime
        self._stop_listening: Callable[[], None] | None = None
        self.workers: weakref.WeakSet[WorkerListener] = weakref.WeakSet()
        lifetime.startup_hooks.append(self._start)
        lifetime.final_hooks.append(self._stop)

    @property
    def is_shared(self) -> bool:
        """True if the bus reaches other processes."""
        return bool(getattr(self._bus, "is_shared", True))

    @property
    def mailboxes(self) -> WorkerBus | None:
        """The bus, if it has a mailbox for each worker."""
        return cast("WorkerBus", self._bus) if hasattr(self._bus, "send") else None

    def publish(self, method: str, uri: str) -> None:
        """Publish a change if the server runs; otherwise there is nobody to notify. Thread-safe."""
        if self._lifetime.has_users:
            self._bus.publish(method, uri)

    def _start(self) -> None:
        self._stop_listening = self._bus.listen(self._receive)

    async def _stop(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    def _receive(self, method: str, text: str) -> None:
        if method.startswith(WORKER_METHOD) and method != GAP:
            for worker in list(self.workers):
                worker.receive_published(method, text)
        else:
            self._notify(method, text)
