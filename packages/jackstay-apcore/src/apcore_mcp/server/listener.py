"""Follows a registry: modules that are registered and unregistered while the server runs.

apcore calls back on whatever thread made the change, after it. What to do about it is the catalogue's affair, and whoever
follows that; here is only the wire between the two. A callback never raises: apcore would count it as an error of its own.

Must never know a server. Above: `serving`. Below: `catalogue`, apcore's Registry.
"""

import logging
import threading
from typing import TYPE_CHECKING, Any

from apcore_mcp.catalogue import Catalogue
from jackstay.types import Tool

if TYPE_CHECKING:
    from apcore import Registry  # type: ignore[import-untyped]  # apcore ships no types

    from apcore_mcp.server.factory import MCPServerFactory

logger = logging.getLogger("apcore_mcp.server.listener")


class RegistryListener:
    """Keeps a catalogue as its registry is. Without one it makes one of the whole registry.

    Raises: TypeError, if `registry` is none.
    """

    def __init__(
        self, registry: "Registry", factory: "MCPServerFactory", catalogue: Catalogue | None = None
    ) -> None:
        from apcore import Registry  # noqa: PLC0415  # loaded: there is one, or something else

        if not isinstance(registry, Registry):
            raise TypeError(f"registry must be an apcore Registry, not {type(registry).__name__}")
        self._registry = registry
        self._catalogue = factory.build_catalogue(registry) if catalogue is None else catalogue
        self._lock = threading.Lock()
        self._is_listening = False

    @property
    def tools(self) -> dict[str, Tool]:
        """What is offered now, by module id: a copy."""
        from apcore_mcp.server.factory import to_tool  # noqa: PLC0415  # the two name each other

        return {entry.id: to_tool(entry) for entry in self._catalogue.tools()}

    def start(self) -> None:
        """Follow the registry from now on, and catch up with what it has become. Twice is once."""
        with self._lock:
            if self._is_listening:
                return
            self._is_listening = True
            self._registry.on("register", self._on_register)
            self._registry.on("unregister", self._on_unregister)
        self._catalogue.refresh()

    def stop(self) -> None:
        """Follow it no longer. Twice is once."""
        with self._lock:
            if self._is_listening:
                self._is_listening = False
                self._registry.off("register", self._on_register)
                self._registry.off("unregister", self._on_unregister)

    def _on_register(self, module_id: str, module: Any) -> None:  # noqa: ARG002  # apcore's signature
        if self._update(module_id) and self._catalogue.find(module_id) is not None:
            logger.info("Tool registered: %s", module_id)

    def _on_unregister(self, module_id: str, module: Any) -> None:  # noqa: ARG002  # apcore's signature
        was_offered = self._catalogue.find(module_id) is not None
        if self._update(module_id) and was_offered:
            logger.info("Tool unregistered: %s", module_id)

    def _update(self, module_id: str) -> bool:
        if not self._is_listening:
            return False
        try:
            self._catalogue.update(module_id)
        except Exception:  # the edge of apcore's callback: nobody above can do anything about it
            logger.exception("a change of %s could not be followed", module_id)
            return False
        return True


__all__ = ["RegistryListener"]
