"""Helpers for command-line programs: entry point, signals, argument parser, shell completion.

Shared by the `jackstay`, `apcore-mcp` and `procontext` commands. It imports as little as possible: until a command has
installed its signal handlers, Ctrl-C prints a traceback.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from jackstay.shell._entry_point import run_command
    from jackstay.shell._grammar import Command, Option, Program, Value, command_from_parser, value_from_metavar
    from jackstay.shell._parser import CommandParser, did_you_mean
    from jackstay.shell._scripts import SHELLS, completion_script
    from jackstay.shell._signals import cancel_on_signal

__all__ = [
    "SHELLS",
    "Command",
    "CommandParser",
    "Option",
    "Program",
    "Value",
    "cancel_on_signal",
    "command_from_parser",
    "completion_script",
    "did_you_mean",
    "run_command",
    "value_from_metavar",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "SHELLS": "_scripts",
            "Command": "_grammar",
            "CommandParser": "_parser",
            "Option": "_grammar",
            "Program": "_grammar",
            "Value": "_grammar",
            "command_from_parser": "_grammar",
            "completion_script": "_scripts",
            "cancel_on_signal": "_signals",
            "did_you_mean": "_parser",
            "run_command": "_entry_point",
            "value_from_metavar": "_grammar",
        },
    )
