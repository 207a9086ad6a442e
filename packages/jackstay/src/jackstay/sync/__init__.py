"""The blocking client: the API of `jackstay.client` without `await`, for scripts, notebooks and threads.

Open a client with `with connect(stdio("uvx", "mcp-server-git")) as client:`. All methods have the names of the async
API.
"""

from jackstay.sync._client import (
    Call,
    Client,
    Completions,
    Elicitation,
    Fleet,
    Logging,
    Prompts,
    Resources,
    Roots,
    Sampling,
    Toolbox,
    Tools,
    connect,
)
from jackstay.transport import stdio


def __getattr__(name: str) -> object:
    """Import `http` on first use; most blocking programs start a command."""
    if name != "http":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jackstay.transport.http import http  # noqa: PLC0415

    return http


__all__ = [
    "Call",
    "Client",
    "Completions",
    "Elicitation",
    "Fleet",
    "Logging",
    "Prompts",
    "Resources",
    "Roots",
    "Sampling",
    "Toolbox",
    "Tools",
    "connect",
    "http",
    "stdio",
]
