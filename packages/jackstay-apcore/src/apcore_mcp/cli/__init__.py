"""The `apcore-mcp` command: serve, check or export a directory of modules, or print the configuration of a client."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._entry": "main",
    },
)
