"""How a change in one process reaches the clients of every other: the contract of the bus between them.

A server that runs in several workers has its subscribers spread over them. What changes in one (a list, a resource) is
published, and every worker tells its own clients. One process needs no bus. `jackstay.testing.store_suites` checks an
implementation against this page.

Must never know a connection. Above: `_server`, and whoever writes a bus. Below: nothing.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

# Called with the method of the notification, and the URI where it is about one resource; else with an empty text.
ChangeListener: TypeAlias = Callable[[str, str], None]


class ChangeBus(Protocol):
    """Carries changes to every server that listens, in this process and in others."""

    def publish(self, method: str, uri: str) -> None:
        """Tell every listener, this process's own too. From any thread; it must not wait for the network."""

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call this for every change from now on, in whatever thread; call what is returned to end that."""


class MemoryChanges:
    """A bus between the servers of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[ChangeListener, ...] = ()

    def __repr__(self) -> str:
        return f"<MemoryChanges, {len(self._listeners)} listeners>"

    def publish(self, method: str, uri: str) -> None:
        """Tell every listener."""
        for listener in self._listeners:
            listener(method, uri)

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call this for every change from now on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end


__all__ = ["ChangeBus", "ChangeListener", "MemoryChanges"]
