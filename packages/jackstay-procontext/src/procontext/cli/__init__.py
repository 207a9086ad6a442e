"""The `procontext` command: the server, and the same tools for use at a terminal.

Each subcommand is a row in `_commands` and a module with `add_arguments` and `run`.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._entry": "main",
    },
)
