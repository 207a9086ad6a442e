"""The change bus: carries notifications of changes between the worker processes of a server.

Each worker publishes its changes and notifies its own clients of the changes of all workers. A single process needs no
bus. `jackstay.testing.store_suites` has tests for implementations.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

# Called with the method of the notification and the URI of the resource (empty for a changed list).
ChangeListener: TypeAlias = Callable[[str, str], None]


class ChangeBus(Protocol):
    """Carries changes to the servers that listen, in this process and in others."""

    def publish(self, method: str, uri: str) -> None:
        """Call every listener, in this process too. Thread-safe. Must not wait for the network."""

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` for every change, in any thread. Returns a function that removes it."""


class MemoryChanges:
    """A bus between the servers of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[ChangeListener, ...] = ()

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


__all__ = ["ChangeBus", "ChangeListener", "MemoryChanges"]
