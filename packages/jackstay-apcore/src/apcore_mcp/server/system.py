"""apcore's read-only `system.*` modules as MCP resources: health, usage and manifest of the server.

They are resources and not tools, as in apcore-mcp: `apcore://system.health.summary`, and for one module
`apcore://system.health.module/{module_id}`. `system.control.*` modules change the server and stay tools.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from jackstay.server import Context, ResourceNotFoundError, Server

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Entry
    from apcore_mcp.server.router import ExecutionRouter

# The modules that are resources, with the rest of the URI.
SYSTEM_RESOURCES: Final = {
    "system.health.summary": "",
    "system.usage.summary": "",
    "system.manifest.full": "",
    "system.health.module": "/{module_id}",
    "system.usage.module": "/{module_id}{?period}",
    "system.manifest.module": "/{module_id}",
}


def is_readonly_system_module(module_id: str) -> bool:
    """Return whether a module is a resource, not a tool."""
    return module_id in SYSTEM_RESOURCES


def add_system_resource(server: Server, entry: "Entry", router: "ExecutionRouter") -> str:
    """Add the resource of a module. Return its URI or URI template."""
    uri = f"apcore://{entry.id}{SYSTEM_RESOURCES[entry.id]}"

    async def read(context: Context, arguments: dict[str, str]) -> str:
        result = await router.call(entry, {name: value for name, value in arguments.items() if value}, context)
        if result.is_error:
            raise ResourceNotFoundError(result.error_text)
        return result.text

    async def read_all(context: Context) -> str:
        return await read(context, {})

    async def read_one(context: Context, module_id: str) -> str:
        return await read(context, {"module_id": module_id})

    async def read_one_period(context: Context, module_id: str, period: str = "") -> str:
        return await read(context, {"module_id": module_id, "period": period})

    handlers: dict[str, Callable[..., Awaitable[str]]] = {
        "": read_all,
        "/{module_id}": read_one,
        "/{module_id}{?period}": read_one_period,
    }
    decorator = server.resource(
        uri, name=entry.id, description=entry.description, mime_type="application/json", blocking=False
    )
    decorator(handlers[SYSTEM_RESOURCES[entry.id]])
    return uri


__all__ = ["SYSTEM_RESOURCES", "add_system_resource", "is_readonly_system_module"]
