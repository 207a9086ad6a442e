"""The `jackstay` command.

Each sub-command is a row in `_commands` and a module that converts arguments to calls of the library, and results to
text.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from jackstay.cli._entry import main

__all__ = ["main"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"main": "_entry"})
