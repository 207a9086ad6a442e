"""Terminal output: colours where the terminal supports them, a progress bar on standard error, and JSON."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

import msgspec

STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def has_colour(stream: TextIO | None) -> bool:
    """Return whether to use colours: a terminal without NO_COLOR (https://no-color.org). None is a closed stream."""
    is_terminal = stream is not None and stream.isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return the text with the escape codes of a style, if the stream shows colours."""
    if not has_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def printable(text: str) -> str:
    """Replace control characters other than newlines and tabs: text of a web page must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character in "\n\t" or not (ord(character) < 32 or 127 <= ord(character) < 160) else "\ufffd"
        for character in text
    )


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_error(message: str, hint: str = "") -> None:
    """Print an error and a hint on standard error."""
    print(f"{styled('procontext:', 'red', sys.stderr)} {printable(message)}", file=sys.stderr)
    if hint:
        print(f"  {printable(hint)}", file=sys.stderr)


class ProgressBar:
    """A progress bar in one line on standard error. Prints nothing if that is not a terminal."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.total = 0  # the last reported total
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Draw the bar. Implements `procontext.interfaces.Progress`."""
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


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


__all__ = ["ProgressBar", "format_table", "has_colour", "print_error", "print_json", "printable", "styled"]
