"""What a command owes the shell that started it: a quiet end, and what the tab key completes.

All three commands stand on this room. It knows none of them, nothing of MCP, and loads next to nothing: whatever is loaded
before a command has its signals in hand is time in which a Ctrl-C shows a traceback.
"""

from jackstay._lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from jackstay.shell._edge import run_command
    from jackstay.shell._parser import CommandParser, meant
    from jackstay.shell._scripts import SHELLS, completion_script
    from jackstay.shell._signals import ending_in_order
    from jackstay.shell._words import Command, Option, Program, Value, command_of, value_of

__all__ = [
    "SHELLS",
    "Command",
    "CommandParser",
    "Option",
    "Program",
    "Value",
    "command_of",
    "completion_script",
    "ending_in_order",
    "meant",
    "run_command",
    "value_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "SHELLS": "_scripts",
            "Command": "_words",
            "CommandParser": "_parser",
            "Option": "_words",
            "Program": "_words",
            "Value": "_words",
            "command_of": "_words",
            "completion_script": "_scripts",
            "ending_in_order": "_signals",
            "meant": "_parser",
            "run_command": "_edge",
            "value_of": "_words",
        },
    )
