"""The exit codes, and which error has which code.

They are listed in every `--help` and in `docs/commands.md`. They show a script what failed, and whether the request may
have run.
"""

from typing import Final, NamedTuple

from jackstay.errors import (
    BackpressureError,
    ClosedError,
    JsonRpcError,
    McpError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)


class Exit(NamedTuple):
    """One exit code, with a short and a full description."""

    code: int
    short: str
    meaning: str


DONE: Final = 0
FAILED: Final = 1
USAGE_ERROR: Final = 2
UNREACHABLE: Final = 3
UNKNOWN: Final = 4
INTERRUPTED: Final = 130
TERMINATED: Final = 143

EXITS = (
    Exit(DONE, "success", "success (also if the reader of the output closed the pipe early)"),
    Exit(FAILED, "failed", "the request failed: the tool reported an error, or the server refused it"),
    Exit(USAGE_ERROR, "usage error", "usage error: unknown command, option, value, server or tool"),
    Exit(UNREACHABLE, "unreachable", "the server could not be started or reached: nothing was sent"),
    Exit(UNKNOWN, "may have run", "no response: the request was sent and may have run (connection lost, timeout)"),
    Exit(INTERRUPTED, "interrupted", "interrupted (Ctrl-C)"),
    Exit(TERMINATED, "terminated", "terminated (SIGTERM, SIGHUP) before the command had finished"),
)

# Errors of the connection: nothing was sent, unless `may_have_run` is True.
_CONNECTION_ERRORS = (BackpressureError, ClosedError, ShutdownError, StateError, TimeoutError, TransportError)


def exit_code(error: McpError) -> int:
    """Return the exit code of a command that failed with this error."""
    if isinstance(error, UsageError):
        return USAGE_ERROR
    if error.may_have_run:
        return UNKNOWN
    # A retryable JSON-RPC error is that of a proxy (docs/proxy.md): the same code as without the proxy.
    is_proxy = isinstance(error, JsonRpcError) and error.retryable
    return UNREACHABLE if is_proxy or isinstance(error, _CONNECTION_ERRORS) else FAILED


def short_exit_codes() -> str:
    """Return the exit codes in one line, for the `--help` of a sub-command."""
    return "exit codes: " + ", ".join(f"{row.code} {row.short}" for row in EXITS[:5])


def exit_codes() -> str:
    """Return all exit codes, for `jackstay --help`."""
    more = ", ".join(f"{row.code} {row.short}" for row in EXITS[5:])
    return f"{short_exit_codes()},\n  {more}\n"
