"""The blocking client: the API of `jackstay.client` without `await`, for scripts, notebooks and threads.

Open a client with `with connect(stdio("uvx", "mcp-server-git")) as client:`. All methods have the names of the async
API.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._client": "Apps Call Client Completions Elicitation Fleet Logging Prompts Resources Roots Sampling Skills"
        " TaskHandle Tasks Toolbox Tools connect",
        "._portal": "portal",
        "jackstay.transport": "stdio",
        "jackstay.transport.http": "http",
    },
)
