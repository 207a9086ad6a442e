"""Jackstay holds MCP connections: the names a user needs, each loaded when it is first asked for.

The rooms, from the bottom: `errors`, `types`, `protocol` (rules without I/O), `transport`, then `client` and `server`
side by side, `cli` on top. This file must never know how any of them works. It is one table, so that `import jackstay`
costs next to nothing and a program that only serves stdio never loads an HTTP stack.
"""

import importlib

from jackstay._lazy import TYPE_CHECKING
from jackstay._version import __version__

if TYPE_CHECKING:
    from jackstay.client import Client, Fleet, connect
    from jackstay.errors import (
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
    from jackstay.server import Server
    from jackstay.transport import stdio
    from jackstay.transport.http import http

# Where each lazy name lives. The imports above show a type checker the same; a test holds the two together.
_HOMES = {
    "BackpressureError": "jackstay.errors",
    "CapabilityError": "jackstay.errors",
    "Client": "jackstay.client",
    "ClosedError": "jackstay.errors",
    "Fleet": "jackstay.client",
    "FrameTooLargeError": "jackstay.errors",
    "JsonRpcError": "jackstay.errors",
    "McpError": "jackstay.errors",
    "OutcomeUnknownError": "jackstay.errors",
    "ProtocolError": "jackstay.errors",
    "ResetError": "jackstay.errors",
    "Server": "jackstay.server",
    "SessionLostError": "jackstay.errors",
    "ShutdownError": "jackstay.errors",
    "StateError": "jackstay.errors",
    "TimeoutError": "jackstay.errors",
    "TransportError": "jackstay.errors",
    "UsageError": "jackstay.errors",
    "connect": "jackstay.client",
    "http": "jackstay.transport.http",
    "stdio": "jackstay.transport",
}

# A type checker must not see this: to it, a module with `__getattr__` has every name, and misspelt ones pass.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load the room that holds `name`, once."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'jackstay' has no attribute {name!r}")
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
