"""Methods of the factory and the transport of apcore-mcp, for programs that connect the components themselves."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server import Server
    from jackstay.server.http import Asgi


def refuse(keyword: str, value: Any, instead: str) -> None:
    """Raise TypeError for a keyword of apcore-mcp that has a value; the message names the replacement."""
    if value:
        raise TypeError(f"{keyword} is not supported: {instead}")


class EventRegistry:
    """A registry that is not one of apcore, for `RegistryListener`: its events determine which modules it has."""

    def __init__(self, given: Any) -> None:
        self._given = given
        names = getattr(given, "list", None)
        self._ids: dict[str, None] = dict.fromkeys(names() if callable(names) else ())

    def note(self, module_id: str, *, is_registered: bool) -> None:
        """Note an event."""
        if is_registered:
            self._ids[module_id] = None
        else:
            self._ids.pop(module_id, None)

    def list(self, **_: object) -> "list[str]":
        """Return the ids of the modules."""
        return list(self._ids)

    def get_definition(self, module_id: str) -> Any:
        """Return the descriptor of a module, or None."""
        return self._given.get_definition(module_id) if module_id in self._ids else None

    def on(self, event: str, callback: Any) -> None:
        """Call a function for each event, if the registry has events."""
        self._change("on", event, callback)

    def off(self, event: str, callback: Any) -> None:
        """Undo `on`, if the registry can."""
        self._change("off", event, callback)

    def _change(self, method: str, event: str, callback: Any) -> None:
        change = getattr(self._given, method, None)
        if callable(change):
            change(event, callback)


class Capabilities:
    """Capabilities that can be read as in the official SDK: `capabilities.tools.listChanged`, `model_dump()`."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        value = self._declared.get(name)
        return Capabilities(value) if isinstance(value, Mapping) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Capabilities) and self._declared == other._declared

    __hash__ = None  # type: ignore[assignment]  # it contains a dict

    def model_dump(self, **_: object) -> dict[str, Any]:
        """Return them as a dict."""
        return dict(self._declared)


class InitOptions(NamedTuple):
    """The result of `build_init_options`, for the `run_...` methods. The server has the same values itself."""

    server_name: str
    server_version: str
    capabilities: Capabilities


class FactoryMethods:
    """Further methods of `MCPServerFactory`."""

    @staticmethod
    async def prepare() -> bool:
        """Do nothing and return False, as in apcore-mcp."""
        return False

    def register_resource_handlers(
        self, server: "Server", registry: Any, router: "ExecutionRouter | None" = None
    ) -> None:
        """Add the documentation of modules as resources and, with a router, the read-only `system.*` modules."""
        from apcore_mcp.server.factory import add_documentation  # noqa: PLC0415  # a circular import
        from apcore_mcp.server.system import add_system_resource, is_readonly_system_module  # noqa: PLC0415  # the same

        catalogue: Catalogue = self.build_catalogue(registry)  # type: ignore[attr-defined]  # of the factory
        for entry in catalogue.tools():
            if not is_readonly_system_module(entry.id):
                add_documentation(server, entry)
            elif router is not None:
                add_system_resource(server, entry, router)

    def build_init_options(
        self, server: "Server", name: str, version: str, *, management_surfaces: Mapping[str, bool] | None = None
    ) -> InitOptions:
        """Return what the `run_...` methods accept, and declare the surfaces that are true.

        Raises: ValueError for a name or version that `create_server()` has to get.
        """
        from apcore_mcp.server.management import declare_surfaces  # noqa: PLC0415  # a circular import

        if (name, version) != (server.options.name, server.options.version):
            raise ValueError(f"pass name={name!r} and version={version!r} to create_server()")
        declared: dict[str, Any] = {kind: {"listChanged": True} for kind in server.options.capabilities}
        extensions = declare_surfaces(management_surfaces or {})
        if extensions:
            server.add_extensions(extensions)
            declared["extensions"] = {extension.identifier: dict(extension.settings) for extension in extensions}
        return InitOptions(name, version, Capabilities(declared))


class TransportMethods:
    """Further methods of `TransportManager`."""

    _http: dict[str, Any]
    _tasks: Any = None

    def set_module_count(self, count: int) -> None:
        """Do nothing: /health counts the tools."""

    def set_async_task_bridge(self, bridge: Any) -> None:
        """End the tasks of an `AsyncTaskBridge` with the server. Raises: TypeError for None."""
        if bridge is None:
            raise TypeError("set_async_task_bridge() requires an AsyncTaskBridge, not None")
        self._tasks = bridge

    @asynccontextmanager
    async def build_streamable_http_app(
        self,
        server: "Server",
        init_options: object = None,  # noqa: ARG002  # the signature of apcore-mcp
        *,
        extra_routes: Sequence[Any] | None = None,
        middleware: Sequence[tuple[Any, dict[str, Any]]] | None = None,
    ) -> AsyncIterator["Asgi"]:
        """Return an ASGI app to mount, with MCP at /mcp. `extra_routes` are routes of Starlette."""
        from apcore_mcp.server.transport import MCP_PATH  # noqa: PLC0415  # a circular import

        self._end_tasks_with(server)
        app = server.asgi(path=MCP_PATH, sessions=True, **self._http)
        async with app.lifespan():
            wrapped: Any = app
            if extra_routes:
                from starlette.routing import Mount, Router  # noqa: PLC0415  # only with such routes

                wrapped = Router([*extra_routes, Mount("", app)])
            for kind, options in reversed(middleware or ()):
                wrapped = kind(wrapped, **options)
            yield wrapped

    def _end_tasks_with(self, server: "Server") -> None:
        if self._tasks is not None:
            server.on_shutdown(self._tasks.shutdown)


__all__ = ["Capabilities", "EventRegistry", "FactoryMethods", "InitOptions", "TransportMethods", "refuse"]
