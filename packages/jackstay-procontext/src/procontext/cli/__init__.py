"""The `procontext` command: the server, and the same tools for people at a terminal.

Each sub-command is a row in `_commands` and a file that turns arguments into calls of the rooms below and answers into text.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from procontext.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
