"""apcore's read-only `system.*` modules as MCP resources: health, usage and manifest of the server.

They are resources and not tools, as in apcore-mcp: `apcore://system.health.summary`, and for one module
`apcore://system.health.module/{module_id}`. `system.control.*` modules change the server and stay tools.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.compat.calls import to_result
from apcore_mcp.server.router import ExecutionRouter
from jackstay.errors import JsonRpcError
from jackstay.server import Context, Server

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Entry

# The code of a call that failed: the module does not exist, or the caller may not read it.
_INVALID_PARAMS: Final = -32602

# The modules that are resources, with the rest of the URI.
SYSTEM_RESOURCES: Final = {
    "system.health.summary": "",
    "system.usage.summary": "{?period}",
    "system.manifest.full": "",
    "system.health.module": "/{module_id}",
    "system.usage.module": "/{module_id}{?period}",
    "system.manifest.module": "/{module_id}",
}


def is_readonly_system_module(module_id: str) -> bool:
    """Return whether a module is a resource, not a tool."""
    return module_id in SYSTEM_RESOURCES


def add_system_resource(server: Server, entry: "Entry", router: Any) -> tuple[str, ...]:
    """Add the resource of a module. Return its URIs and URI templates.

    `router` is an `ExecutionRouter`, or an object with its `handle_call()`.
    """
    rest = SYSTEM_RESOURCES[entry.id]

    async def read(context: Context, arguments: dict[str, str]) -> str:
        given = {name: value for name, value in arguments.items() if value}
        if isinstance(router, ExecutionRouter):
            result = await router.call(entry, given, context)
        else:
            result = to_result(await router.handle_call(entry.id, given, {"_meta": dict(context.meta)}), None)
        if result.is_error:
            raise JsonRpcError(_INVALID_PARAMS, result.error_text)
        return result.text

    async def read_all(context: Context) -> str:
        return await read(context, {})

    async def read_all_period(context: Context, period: str = "") -> str:
        return await read(context, {"period": period})

    async def read_one(context: Context, module_id: str) -> str:
        return await read(context, {"module_id": module_id})

    async def read_one_period(context: Context, module_id: str, period: str = "") -> str:
        return await read(context, {"module_id": module_id, "period": period})

    handlers: dict[str, Callable[..., Awaitable[str]]] = {
        "": read_all,
        "{?period}": read_all_period,
        "/{module_id}": read_one,
        "/{module_id}{?period}": read_one_period,
    }
    # A module without parameters in its path is a resource, and with a query also a template.
    paths = {"", rest} if not rest.startswith("/") else {rest}
    uris = tuple(f"apcore://{entry.id}{path}" for path in sorted(paths))
    for uri, path in zip(uris, sorted(paths), strict=True):
        decorator = server.resource(
            uri, name=entry.id, description=entry.description, mime_type="application/json", blocking=False
        )
        decorator(handlers[path])
    return uris


__all__ = ["SYSTEM_RESOURCES", "add_system_resource", "is_readonly_system_module"]
