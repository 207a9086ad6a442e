"""Terminal output: tables, colour and progress.

Colour and line wrapping are used only on a terminal. Text from a server is not trusted: on a terminal and in tables,
control characters are escaped.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

from jackstay.types import ProgressNotificationParams

BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"

# The narrowest last column of a table. Below it, rows are printed as lists.
MIN_WIDTH: Final = 24
GAP: Final = "  "

# Control characters and bidirectional overrides, except tab and newline.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Replace control characters by escape sequences, as in `\\x1b`."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def first_line(text: str | None) -> str:
    """Return the first non-empty line with control characters escaped, for a table."""
    lines = (text or "").strip().splitlines()
    return escape_controls(lines[0]).replace("\t", " ") if lines else ""


class Screen:
    """An output stream: a terminal, with colour and width, or a file or pipe."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_terminal = self._stream is not None and self._stream.isatty()
        # https://no-color.org: any value that is not empty turns colour off.
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int | None:
        """The number of columns; None if the stream is not a terminal."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    def paint(self, text: str, colour: str) -> str:
        """Return the text in that colour, if the stream has colour."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colour and text else text

    def print_line(self, line: str = "") -> None:
        """Print one line unchanged, and flush."""
        print(line, file=self._stream, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print columns with headings. On a terminal, the last column is wrapped."""
        widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)]
        indent = sum(widths) + len(GAP) * len(widths)
        total = self.width
        if total is not None and indent + MIN_WIDTH > total:
            self._list(heads, rows, total)
            return
        self.print_line(self.paint(GAP.join([*_padded(heads, widths), heads[-1]]), BOLD))
        for row in rows:
            last = [row[-1]] if total is None else textwrap.wrap(row[-1], total - indent) or [""]
            cells = _padded(row, widths)
            cells[0] = self.paint(cells[0], GREEN)
            self.print_line(GAP.join([*cells, last[0]]).rstrip())
            for line in last[1:]:
                self.print_line(" " * indent + line)

    def _list(self, heads: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> None:
        """Print each row as a block, for a terminal that is too narrow for columns."""
        for number, row in enumerate(rows):
            if number:
                self.print_line()
            self.print_line(self.paint(row[0], GREEN))
            for head, cell in zip(heads[1:], row[1:], strict=True):
                if cell:
                    self.print_line(
                        textwrap.fill(f"{head.lower()}: {cell}", total, initial_indent=GAP, subsequent_indent=GAP * 2)
                    )


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]


class ProgressLine:
    """Shows the progress of a call on standard error: one line that is updated on a terminal, otherwise a line each."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._screen = Screen(sys.stderr if stream is None else stream)
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = False

    def __call__(self, progress: ProgressNotificationParams) -> None:
        """Show a progress notification."""
        done = f"{progress.progress:g}"
        if progress.total:
            share = min(max(progress.progress / progress.total, 0.0), 1.0)
            done = f"{share:4.0%} ({progress.progress:g} of {progress.total:g})"
        line = " ".join([done, first_line(progress.message)]).rstrip()
        width = self._screen.width
        if width is None:
            self._screen.print_line(line.lstrip())
            return
        self._stream.write(f"\r\x1b[K{self._screen.paint(line[: width - 1], DIM)}")
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line before the result is printed."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False
