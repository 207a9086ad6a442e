"""How answers look to a person: colour where a terminal shows it, progress on standard error, JSON for programs.

Must never know what is shown. Above: the commands. Below: the terminal.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

import msgspec

STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def has_colour(stream: TextIO | None) -> bool:
    """Whether this is a terminal whose user did not say no (https://no-color.org); None: the stream was closed."""
    is_terminal = stream is not None and stream.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, if that can be seen."""
    if not has_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def printable(text: str) -> str:
    """Text of a foreign page without what would steer a terminal: control characters other than line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character in "\n\t" or not (ord(character) < 32 or 127 <= ord(character) < 160)
        else "\ufffd"
        for character in text
    )


def print_json(value: object) -> None:
    """One JSON document, indented."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_error(message: str, hint: str = "") -> None:
    """A failure, and what to do, on standard error."""
    print(f"{styled('procontext:', 'red', sys.stderr)} {printable(message)}", file=sys.stderr)
    if hint:
        print(f"  {printable(hint)}", file=sys.stderr)


class ProgressBar:
    """How far a long fetch has come, in one line on standard error; on anything but a terminal it is silent."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.total = 0  # as it was told last
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show it; `Progress` of the documents."""
        self.total = total
        if not self._is_shown:
            return
        width = shutil.get_terminal_size().columns
        filled = 20 * done // max(total, 1)
        line = f"{self._title} [{'#' * filled}{'.' * (20 - filled)}] {done}/{total} {printable(what)}"
        self._stream.write(f"\r\x1b[2K{line[: width - 1]}")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._is_shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


def as_rows(rows: Sequence[tuple[str, ...]]) -> str:
    """A table with columns as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


__all__ = ["ProgressBar", "as_rows", "has_colour", "print_error", "print_json", "printable", "styled"]
