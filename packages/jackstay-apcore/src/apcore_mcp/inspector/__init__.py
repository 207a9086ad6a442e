"""The Tool Inspector: a web page that lists the tools, shows their schemas, and calls them.

`routes()` returns it as an ASGI app for the paths below its prefix.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from apcore_mcp.inspector.calls import Call, Calls
    from apcore_mcp.inspector.changes import Changes
    from apcore_mcp.inspector.page import Page, read_page
    from apcore_mcp.inspector.paths import Inspector, routes

__all__ = ["Call", "Calls", "Changes", "Inspector", "Page", "read_page", "routes"]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Call": "calls",
            "Calls": "calls",
            "Changes": "changes",
            "Inspector": "paths",
            "Page": "page",
            "read_page": "page",
            "routes": "paths",
        },
    )
