"""Mooring holds MCP connections: the names a user needs, each loaded when it is first asked for.

The rooms, from the bottom: `errors`, `types`, `protocol` (rules without I/O), `transport`, then `client` and `server`
side by side, `cli` on top. This file must never know how any of them works. It is one table, so that `import mooring`
costs next to nothing and a program that only serves stdio never loads an HTTP stack.
"""

import importlib

from mooring._lazy import TYPE_CHECKING
from mooring._version import __version__

if TYPE_CHECKING:
    from mooring.client import Client, Fleet, connect
    from mooring.errors import (
        BackpressureError,
        CapabilityError,
        ClosedError,
        FrameTooLargeError,
        JsonRpcError,
        McpError,
        OutcomeUnknownError,
        ProtocolError,
        ResetError,
        SessionLostError,
        ShutdownError,
        StateError,
        TimeoutError,
        TransportError,
        UsageError,
    )
    from mooring.server import Server
    from mooring.transport import stdio
    from mooring.transport.http import http

# Where each lazy name lives. The imports above show a type checker the same; a test holds the two together.
_HOMES = {
    "BackpressureError": "mooring.errors",
    "CapabilityError": "mooring.errors",
    "Client": "mooring.client",
    "ClosedError": "mooring.errors",
    "Fleet": "mooring.client",
    "FrameTooLargeError": "mooring.errors",
    "JsonRpcError": "mooring.errors",
    "McpError": "mooring.errors",
    "OutcomeUnknownError": "mooring.errors",
    "ProtocolError": "mooring.errors",
    "ResetError": "mooring.errors",
    "Server": "mooring.server",
    "SessionLostError": "mooring.errors",
    "ShutdownError": "mooring.errors",
    "StateError": "mooring.errors",
    "TimeoutError": "mooring.errors",
    "TransportError": "mooring.errors",
    "UsageError": "mooring.errors",
    "connect": "mooring.client",
    "http": "mooring.transport.http",
    "stdio": "mooring.transport",
}

# A type checker must not see this: to it, a module with `__getattr__` has every name, and misspelt ones pass.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load the room that holds `name`, once."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'mooring' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Every public name, loaded or not."""
        return sorted(globals().keys() | _HOMES.keys())


__all__ = [
    "BackpressureError",
    "CapabilityError",
    "Client",
    "ClosedError",
    "Fleet",
    "FrameTooLargeError",
    "JsonRpcError",
    "McpError",
    "OutcomeUnknownError",
    "ProtocolError",
    "ResetError",
    "Server",
    "SessionLostError",
    "ShutdownError",
    "StateError",
    "TimeoutError",
    "TransportError",
    "UsageError",
    "__version__",
    "connect",
    "http",
    "stdio",
]
