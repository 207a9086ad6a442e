"""Everything that one served registry needs, joined once: executor, catalogue, router, server, listener.

`serve()`, `async_serve()`, `asgi_app()` and `MCPServer` differ in who owns the process; what they serve is one of these. The
inspector, the metrics and the health page read the same parts.

Above: `serving`, `background`, the pages. Below: `server`, `catalogue`, `options`.
"""

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

from apcore_mcp._version import __version__
from apcore_mcp.containment import contain
from apcore_mcp.options import ServeOptions
from apcore_mcp.server.factory import MCPServerFactory
from apcore_mcp.server.listener import RegistryListener
from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.transport import TransportManager

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi

logger = logging.getLogger("apcore_mcp")


class Bridge:
    """A registry, ready to be served. `close()` it in the end, so that it follows the registry no longer.

    `owns_loop`: it is served on a loop of its own, and not on one of the program around it.

    Raises: TypeError, if it is given neither a Registry nor an Executor.
    """

    def __init__(
        self, registry_or_executor: "Registry | Executor", options: ServeOptions, *, owns_loop: bool = False
    ) -> None:
        self.options = options
        self.executor = to_executor(registry_or_executor)
        self.registry: Registry = self.executor.registry
        self.factory = MCPServerFactory()
        self.catalogue = self.factory.build_catalogue(self.registry, options.tags, options.prefix)
        self.router = ExecutionRouter(
            self.executor,
            catalogue=self.catalogue,
            validate_inputs=options.validate_inputs,
            fill_defaults=options.fill_defaults,
            approval=options.approval,
            owns_loop=owns_loop,
        )
        self.server = self.factory.create_server(options.name, options.version or __version__)
        self.offer = self.factory.register_catalogue(self.server, self.catalogue, self.router)
        self.listener = RegistryListener(self.registry, self.factory, self.catalogue)
        self.started_at = time.monotonic()
        self._lock = threading.Lock()
        self._owes_shutdown = False
        if options.dynamic:
            self.listener.start()
        if not len(self.catalogue):
            logger.warning("No modules registered: %s serves no tools", options.name)

    def __repr__(self) -> str:
        return f"<Bridge {self.options.name} {self.catalogue!r}>"

    def close(self) -> None:
        """Follow the registry no longer. Twice is once."""
        self.listener.stop()
        self.offer.end()

    def start_up(self) -> None:
        """Call the author's hook, before it serves. What it raises is why it does not."""
        self._owes_shutdown = True
        if self.options.on_startup is not None:
            self.options.on_startup()

    def shut_down(self) -> None:
        """Call the author's other hook, once for each `start_up()`, from whatever thread is the last."""
        with self._lock:
            is_owed, self._owes_shutdown = self._owes_shutdown, False
        if is_owed and self.options.on_shutdown is not None:
            self.options.on_shutdown()

    def transport(self) -> TransportManager:
        """How it is reached, with the pages around the endpoint."""
        return TransportManager(self.around, self.shut_down, **self.http_options())

    def http_options(self) -> dict[str, Any]:
        """What jackstay's endpoint is told beside where it is."""
        options = self.options
        asked: dict[str, Any] = {"auth": options.auth, "cors": tuple(options.cors)}
        if options.hosts is not None:
            asked["hosts"] = tuple(options.hosts)
        return asked

    def around(self, app: "App") -> "Asgi":
        """The app that is served: the pages at their paths, and the endpoint everywhere else."""
        from apcore_mcp.pages import around  # noqa: PLC0415  # only over HTTP

        return around(self, app)


def to_executor(given: object) -> Executor:
    """The executor that was passed in, as it is, or one for the registry.

    Raises: TypeError for anything else.
    """
    if isinstance(given, Executor):
        return given
    if isinstance(given, Registry):
        return contain(Executor(given))
    raise TypeError(f"expected an apcore Registry or Executor, not {type(given).__name__}")


__all__ = ["Bridge", "to_executor"]
