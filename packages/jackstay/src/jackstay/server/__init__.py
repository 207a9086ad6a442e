"""MCP servers: `Server`, the `Context` of a handler, and the types that they accept and return."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.server._catalogue import Catalogue, Kind
    from jackstay.server._changes import ChangeBus, ChangeListener, MemoryChanges
    from jackstay.server._connection import Connection
    from jackstay.server._content import Audio, Image
    from jackstay.server._context import Context, Elicited
    from jackstay.server._dispatch import Middleware, Next, OnInvalidArguments
    from jackstay.server._driver import Driver, Handlers, Outcome
    from jackstay.server._failures import InsufficientScopeError, ResourceNotFoundError, ToolError
    from jackstay.server._options import Options
    from jackstay.server._problems import InvalidArguments, Problem
    from jackstay.server._server import Server, find_server
    from jackstay.server._telemetry import EVENTS, Fields, Listener
    from jackstay.server._tracing import trace_requests

__all__ = [
    "EVENTS",
    "Audio",
    "Catalogue",
    "ChangeBus",
    "ChangeListener",
    "Connection",
    "Context",
    "Driver",
    "Elicited",
    "Fields",
    "Handlers",
    "Image",
    "InsufficientScopeError",
    "InvalidArguments",
    "Kind",
    "Listener",
    "MemoryChanges",
    "Middleware",
    "Next",
    "OnInvalidArguments",
    "Options",
    "Outcome",
    "Problem",
    "ResourceNotFoundError",
    "Server",
    "ToolError",
    "find_server",
    "trace_requests",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Audio": "_content",
            "Catalogue": "_catalogue",
            "ChangeBus": "_changes",
            "ChangeListener": "_changes",
            "Connection": "_connection",
            "Context": "_context",
            "Driver": "_driver",
            "EVENTS": "_telemetry",
            "Elicited": "_context",
            "Fields": "_telemetry",
            "Handlers": "_driver",
            "Image": "_content",
            "InsufficientScopeError": "_failures",
            "InvalidArguments": "_problems",
            "Kind": "_catalogue",
            "Listener": "_telemetry",
            "MemoryChanges": "_changes",
            "Middleware": "_dispatch",
            "Next": "_dispatch",
            "OnInvalidArguments": "_dispatch",
            "Options": "_options",
            "Outcome": "_driver",
            "Problem": "_problems",
            "ResourceNotFoundError": "_failures",
            "Server": "_server",
            "ToolError": "_failures",
            "find_server": "_server",
            "trace_requests": "_tracing",
        },
    )
