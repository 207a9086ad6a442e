"""The entry point of the `apcore-mcp` command.

It imports almost nothing itself, so that signals are handled as soon as Python has started. The exit code after SIGINT
and SIGTERM is 0.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell import StatusLine, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the `apcore-mcp` command and return the exit code. `arguments` defaults to `sys.argv[1:]`."""
    return run_command(
        _run,
        arguments,
        name="apcore-mcp",
        interrupted=0,
        terminated=0,
        package="apcore_mcp",
        distribution="jackstay-apcore",
    )


def _run(argv: list[str]) -> int:
    with StatusLine("starting"):
        from apcore_mcp.cli._main import run  # noqa: PLC0415  # see the module docstring

    return run(argv)


__all__ = ["main"]
