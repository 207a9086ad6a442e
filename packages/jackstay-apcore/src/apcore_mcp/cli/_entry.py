"""The entry point: the words that were typed in, the exit code out.

It loads nothing itself, so that a signal finds the command at its edge as soon as Python has begun. Both SIGINT and SIGTERM are
exit code 0, at any moment (F-009).

Above: the shell, `python -m apcore_mcp`. Below: `_main`, loaded inside the edge.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell import run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the `apcore-mcp` command; the exit code. `arguments` defaults to what was typed."""
    return run_command(
        _run,
        arguments,
        name="apcore-mcp",
        interrupted=0,
        terminated=0,
        package="apcore_mcp",
        distribution="jackstay-apcore",
    )


def _run(words: list[str]) -> int:
    from apcore_mcp.cli._main import run  # noqa: PLC0415  # as said above

    return run(words)


__all__ = ["main"]
