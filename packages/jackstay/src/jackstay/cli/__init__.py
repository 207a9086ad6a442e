"""The `jackstay` command.

It stands on top of client and server and holds no rule of its own: each sub-command is a row in `_commands`, and a
file that turns arguments into calls of the rooms below and results into text.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from jackstay.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
