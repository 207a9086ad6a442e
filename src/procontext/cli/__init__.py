"""The `procontext` command: the server, and the same tools for people at a terminal.

Each sub-command is a row in `_commands` and a file that turns arguments into calls of the rooms below and answers into text.
"""

from procontext.cli._main import main

__all__ = ["main"]
