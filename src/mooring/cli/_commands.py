"""The sub-commands, as rows: what each is called, what it does in one line, and which file holds it.

A row names its file as text, so that `mooring --help` lists every command and loads none. A new command is a row here
and a file beside this one with the two functions of `Command`.
"""

import importlib
from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol, cast


class Command(Protocol):
    """What the file of a command provides."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments of this command."""

    def run(self, arguments: Namespace) -> int:
        """Do it, write the result to standard output, and return the exit code."""


class CommandRow(NamedTuple):
    """One sub-command. `home` is imported when the command is the one that was typed."""

    name: str
    summary: str
    home: str


COMMANDS = (
    CommandRow("states", "print the state machines, drawn from the tables that run", "mooring.cli._states"),
)


def load(row: CommandRow) -> Command:
    """The file of that row."""
    # A module with these two functions is a Command; import_module can only promise a module.
    return cast("Command", importlib.import_module(row.home))
