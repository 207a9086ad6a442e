"""Errors and JSON on a terminal. Colour, tables and status lines are those of `jackstay.shell`."""

import msgspec

from jackstay.shell import Screen
from jackstay.shell import print_error as print_error_of


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    Screen().print_line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_error(message: str, hint: str = "") -> None:
    """Print an error and a hint on standard error."""
    print_error_of("procontext", message, hint)


__all__ = ["print_error", "print_json"]
