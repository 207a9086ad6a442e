"""The `jackstay` command.

Each sub-command is a row in `_commands` and a module that converts arguments to calls of the library, and results to
text.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, {"._entry": "main"})
