"""Jackstay: an MCP client, server and proxy. Each public name is imported on first use.

`import jackstay` loads nothing else, and a program that only serves stdio never loads an HTTP stack.
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
        UnexpectedOptionError,
        UsageError,
    )
    from jackstay.server import Server
    from jackstay.transport import stdio
    from jackstay.transport.http import http

# The module of each lazy name. The imports above are for type checkers; a test compares the two lists.
_LAZY_MODULES = {
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
    "UnexpectedOptionError": "jackstay.errors",
    "UsageError": "jackstay.errors",
    "connect": "jackstay.client",
    "http": "jackstay.transport.http",
    "stdio": "jackstay.transport",
}

# Hidden from type checkers: in a module with `__getattr__` they would accept every name, misspelt ones included.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `name` from its module on first use."""
        home = _LAZY_MODULES.get(name)
        if home is None:
            raise AttributeError(f"module 'jackstay' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return every public name, loaded or not."""
        return sorted(globals().keys() | _LAZY_MODULES.keys())


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
    "UnexpectedOptionError",
    "UsageError",
    "__version__",
    "connect",
    "http",
    "stdio",
]
