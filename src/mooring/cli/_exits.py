"""How a command ends: the exit codes as rows, and which error ends with which.

The rows make the end of `mooring --help` and the table in `docs/commands.md`; a script can go by them. The division is
the one that all errors here have: who was at fault, and may it have run?

Above: `_main` and the commands. Below: `mooring.errors`.
"""

from typing import Final, NamedTuple

from mooring.errors import (
    BackpressureError,
    ClosedError,
    McpError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)


class Exit(NamedTuple):
    """One exit code."""

    code: int
    meaning: str


DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
UNREACHED: Final = 3
UNKNOWN: Final = 4
INTERRUPTED: Final = 130
TERMINATED: Final = 143

EXITS = (
    Exit(DONE, "done (also when the reader of our output closed the pipe early)"),
    Exit(FAILED, "it was tried and failed: the tool says so, or the server refused"),
    Exit(MISUSED, "it was not understood: unknown command, option, value, server or tool"),
    Exit(UNREACHED, "the server could not be started or reached: nothing was sent"),
    Exit(UNKNOWN, "no answer: it was sent, and may have run (lost connection, time ran out)"),
    Exit(INTERRUPTED, "interrupted (Ctrl-C)"),
    Exit(TERMINATED, "terminated (SIGTERM, SIGHUP) before it was done"),
)

# Errors of the connection: nothing was sent, unless they say that it may have run.
_OF_THE_CONNECTION = (
    BackpressureError,
    ClosedError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
)


def code_of(error: McpError) -> int:
    """The exit code of a command that ended with this error."""
    if isinstance(error, UsageError):
        return MISUSED
    if error.may_have_run:
        return UNKNOWN
    return UNREACHED if isinstance(error, _OF_THE_CONNECTION) else FAILED


def exit_codes() -> str:
    """The rows as the end of `mooring --help`."""
    rows = "".join(f"  {row.code:<4} {row.meaning}\n" for row in EXITS)
    return f"exit codes:\n{rows}"


def short_exit_codes() -> str:
    """The end of every other `--help`: a line."""
    return "exit codes: 0 done, 1 failed, 2 not understood, 3 not reached, 4 may have run"
