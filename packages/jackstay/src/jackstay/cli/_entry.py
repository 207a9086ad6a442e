"""The entry point: the words that were typed in, the exit code out.

It loads nothing itself, so that a Ctrl-C finds the command at its edge as soon as Python has begun.

Above: the shell, `python -m jackstay`. Below: `_main`, loaded inside the edge.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell import run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the `jackstay` command and return its exit code; nothing is raised. `argv` defaults to what was typed."""
    return run_command(_run, argv, name="jackstay")


def _run(words: list[str]) -> int:
    from jackstay.cli._main import run  # noqa: PLC0415  # as said above

    return run(words)
