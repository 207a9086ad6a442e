"""Argument types for numbers."""

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """Parse an integer of at least 1. Raises: ArgumentTypeError."""
    if not text.isascii() or not text.isdecimal() or int(text[:12]) < 1:
        raise ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text[:12])


def port(text: str) -> int:
    """Parse a port to listen on; 0 means any free port. Raises: ArgumentTypeError."""
    if not text.isascii() or not text.isdecimal() or int(text[:12]) > 65_535:
        raise ArgumentTypeError(f"must be a number from 0 to 65535, not {text!r}")
    return int(text)


__all__ = ["port", "positive"]
