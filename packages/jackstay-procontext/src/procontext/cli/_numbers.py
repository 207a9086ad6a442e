"""Numbers as they are typed. Above: the commands. Below: nothing."""

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """A whole number from 1 on. Raises: ArgumentTypeError."""
    if not text.isascii() or not text.isdecimal() or int(text[:12]) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text[:12])


def port(text: str) -> int:
    """A port to listen on, 0 for a free one. Raises: ArgumentTypeError."""
    if not text.isascii() or not text.isdecimal() or int(text[:12]) > 65_535:
        raise ArgumentTypeError(f"must be a number from 0 to 65535, not {text!r}")
    return int(text)


__all__ = ["port", "positive"]
