"""Update a catalogue when modules are registered and unregistered.

apcore calls back after a change, on the thread of the change. The callbacks never raise, because apcore would treat
that as its own error.
"""

import logging
import threading
from typing import TYPE_CHECKING, Any

from apcore_mcp.backends import check_registry, is_apcore_registry
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.compat.components import EventRegistry
from jackstay.types import Tool

if TYPE_CHECKING:
    from apcore import Registry  # type: ignore[import-untyped]  # apcore ships no types

    from apcore_mcp.server.factory import MCPServerFactory

logger = logging.getLogger("apcore_mcp.server.listener")


class RegistryListener:
    """Keeps a catalogue equal to its registry. Without a catalogue, it creates one of the whole registry.

    Raises: TypeError if `registry` is not an apcore Registry.
    """

    def __init__(self, registry: "Registry", factory: "MCPServerFactory", catalogue: Catalogue | None = None) -> None:
        self._registry = registry if is_apcore_registry(registry) else _adapt(registry)
        self._catalogue = factory.build_catalogue(self._registry) if catalogue is None else catalogue
        self._lock = threading.Lock()
        self._is_listening = False

    @property
    def tools(self) -> dict[str, Tool]:
        """The current tools by module id."""
        from apcore_mcp.server.factory import to_tool  # noqa: PLC0415  # a circular import

        return {entry.id: to_tool(entry) for entry in self._catalogue.tools()}

    def start(self) -> None:
        """Follow the registry, and catch up with earlier changes. Further calls do nothing."""
        with self._lock:
            if self._is_listening:
                return
            self._is_listening = True
            self._registry.on("register", self._on_register)
            self._registry.on("unregister", self._on_unregister)
        self._catalogue.refresh()

    def stop(self) -> None:
        """Stop following the registry. Further calls do nothing."""
        with self._lock:
            if self._is_listening:
                self._is_listening = False
                self._registry.off("register", self._on_register)
                self._registry.off("unregister", self._on_unregister)

    def _on_register(self, module_id: str, module: Any) -> None:  # noqa: ARG002  # apcore's signature
        self._note(module_id, is_registered=True)
        if self._update(module_id) and self._catalogue.find(module_id) is not None:
            logger.info("Tool registered: %s", module_id)

    def _on_unregister(self, module_id: str, module: Any) -> None:  # noqa: ARG002  # apcore's signature
        was_served = self._catalogue.find(module_id) is not None
        self._note(module_id, is_registered=False)
        if self._update(module_id) and was_served:
            logger.info("Tool unregistered: %s", module_id)

    def _note(self, module_id: str, *, is_registered: bool) -> None:
        if self._is_listening and isinstance(self._registry, EventRegistry):
            self._registry.note(module_id, is_registered=is_registered)

    def _update(self, module_id: str) -> bool:
        if not self._is_listening:
            return False
        try:
            self._catalogue.update(module_id)
        except Exception:  # a callback of apcore must not raise
            logger.exception("cannot apply a change of %s", module_id)
            return False
        return True


def _adapt(given: Any) -> EventRegistry:
    """Return an object with the methods of a registry. Raises: TypeError."""
    if not all(callable(getattr(given, method, None)) for method in ("on", "get_definition")):
        check_registry(given)
    return EventRegistry(given)


__all__ = ["RegistryListener"]
