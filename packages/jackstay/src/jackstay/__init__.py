"""Jackstay: an MCP client, server and proxy. Each public name is imported on first use.

`import jackstay` loads nothing else, and a program that only serves stdio never loads an HTTP stack.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._version": "__version__",
        ".client": "Client Fleet connect",
        ".errors": "BackpressureError CapabilityError ClosedError FrameTooLargeError JsonRpcError McpError"
        " OutcomeUnknownError ProtocolError ResetError SessionLostError ShutdownError StateError TimeoutError"
        " ToolCallError TransportError UnexpectedOptionError UsageError",
        ".server": "Context Depends Server ToolError",
        ".transport": "stdio",
        ".transport.http": "http",
    },
)
