"""The entry point of the `procontext` command.

It imports almost nothing itself, so that Ctrl-C is handled as soon as Python has started.
"""

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell import StatusLine, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the `procontext` command and return its exit code; raises nothing. `argv` defaults to `sys.argv[1:]`."""
    return run_command(_run, argv, name="procontext", package="procontext", distribution="jackstay-procontext")


def _run(argv: list[str]) -> int:
    with StatusLine("starting"):
        from procontext.cli._main import run  # noqa: PLC0415  # see the module docstring

    return run(argv)


__all__ = ["main"]
