"""The entry point of the `jackstay` command.

It imports as little as possible, so that the signal handlers are installed early.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell import StatusLine, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the `jackstay` command and return its exit code. `argv` defaults to `sys.argv[1:]`."""
    return run_command(_run, argv, name="jackstay")


def _run(words: list[str]) -> int:
    with StatusLine("starting"):
        from jackstay.cli._main import run  # noqa: PLC0415  # after the signal handlers

    return run(words)
