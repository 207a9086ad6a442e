"""How a command ends: the exit codes as rows, and which error ends with which.

The rows make the end of every `--help` and the table in `docs/commands.md`; a script can go by them. The division is
the one that all errors here have: who was at fault, and may it have run?

Above: `_main` and the commands. Below: `jackstay.errors`.
"""

from typing import Final, NamedTuple

from jackstay.errors import (
    BackpressureError,
    ClosedError,
    Json,
    JsonRpcError,
    McpError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)


class Exit(NamedTuple):
    """One exit code, in a word or two and in a sentence."""

    code: int
    short: str
    meaning: str


DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
UNREACHED: Final = 3
UNKNOWN: Final = 4
INTERRUPTED: Final = 130
TERMINATED: Final = 143

EXITS = (
    Exit(DONE, "done", "done (also when the reader of our output closed the pipe early)"),
    Exit(FAILED, "failed", "it was tried and failed: the tool says so, or the server refused"),
    Exit(MISUSED, "not understood", "it was not understood: unknown command, option, value, server or tool"),
    Exit(UNREACHED, "not reached", "the server could not be started or reached: nothing was sent"),
    Exit(UNKNOWN, "may have run", "no answer: it was sent, and may have run (lost connection, time ran out)"),
    Exit(INTERRUPTED, "interrupted", "interrupted (Ctrl-C)"),
    Exit(TERMINATED, "terminated", "terminated (SIGTERM, SIGHUP) before it was done"),
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
    if isinstance(error, JsonRpcError) and isinstance(error.data, dict):
        return _code_of_proxy(error.data)
    if error.may_have_run:
        return UNKNOWN
    return UNREACHED if isinstance(error, _OF_THE_CONNECTION) else FAILED


def _code_of_proxy(data: dict[str, Json]) -> int:
    """The server in front says how it went with the one behind (docs/proxy.md): as if it were not between us."""
    if data.get("mayHaveRun") is True:
        return UNKNOWN
    return UNREACHED if data.get("mayHaveRun") is False and data.get("retryable") is True else FAILED


def exit_codes() -> str:
    """The rows as the end of `jackstay --help`; what they mean is in `docs/commands.md`."""
    ours, signals = EXITS[:5], EXITS[5:]
    return f"exit codes: {_said(ours)},\n  {_said(signals)}\n"


def short_exit_codes() -> str:
    """The end of every other `--help`: a line."""
    return f"exit codes: {_said(EXITS[:5])}"


def _said(rows: tuple[Exit, ...]) -> str:
    return ", ".join(f"{row.code} {row.short}" for row in rows)
