"""The `mooring` command.

It stands on top of client and server and holds no rule of its own: each sub-command is a row in `_commands`, and a
file that turns arguments into calls of the rooms below and results into text.
"""

from mooring.cli._main import main

__all__ = ["main"]
