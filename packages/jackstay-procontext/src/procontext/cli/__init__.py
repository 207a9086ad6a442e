"""The `procontext` command: the server, and the same tools for use at a terminal.

Each subcommand is a row in `_commands` and a module with `add_arguments` and `run`.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from procontext.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
