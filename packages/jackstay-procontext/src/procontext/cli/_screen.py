"""Errors and JSON on a terminal. Colour, tables and status lines are those of `jackstay.shell`."""

import sys

import msgspec

from jackstay.shell import RED, Screen, escape_controls


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    Screen().print_line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_error(message: str, hint: str = "") -> None:
    """Print an error and a hint on standard error."""
    screen = Screen(sys.stderr)
    screen.print_line(f"{screen.paint('procontext:', RED)} {escape_controls(message)}")
    if hint:
        screen.print_line(f"  {escape_controls(hint)}")


__all__ = ["print_error", "print_json"]
