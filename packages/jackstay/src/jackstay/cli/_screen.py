"""What people see: tables, colour, progress; and nothing of a server's that could steer their terminal.

Colour and width only where standard output is a terminal: into a pipe goes plain text, and lines are not broken. Text from
a server is never trusted: on a terminal, and in every table, control characters are shown and not obeyed.

Must never know what is shown. Above: the commands. Below: the terminal.
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

# A column of prose narrower than this is harder to read than a line that is too long.
LEAST_WIDTH: Final = 24
GAP: Final = "  "

# Everything that moves a cursor, changes a colour, or turns the direction of writing around. Not tab and newline.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text with control characters shown as escapes."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def first_line(text: str | None) -> str:
    """The first line that says something, cleaned: what a table shows of a description."""
    lines = (text or "").strip().splitlines()
    return clean(lines[0]).replace("\t", " ") if lines else ""


class Screen:
    """One stream, and what it can show."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_terminal = self._stream is not None and self._stream.isatty()
        # https://no-color.org: present and not empty means none.
        self.has_colour = (
            self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    @property
    def width(self) -> int | None:
        """How many characters fit in a line; None where lines may have any length."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    def paint(self, text: str, colour: str) -> str:
        """The text in that colour, where there is colour."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colour and text else text

    def say(self, line: str = "") -> None:
        """One line, as it is, at once."""
        print(line, file=self._stream, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns under their heads. On a terminal the last column is broken into lines that fit."""
        widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads) - 1)]
        indent = sum(widths) + len(GAP) * len(widths)
        total = self.width
        if total is not None and indent + LEAST_WIDTH > total:
            self._list(heads, rows, total)
            return
        self.say(self.paint(GAP.join([*_padded(heads, widths), heads[-1]]), BOLD))
        for row in rows:
            last = [row[-1]] if total is None else textwrap.wrap(row[-1], total - indent) or [""]
            cells = _padded(row, widths)
            cells[0] = self.paint(cells[0], GREEN)
            self.say(GAP.join([*cells, last[0]]).rstrip())
            for line in last[1:]:
                self.say(" " * indent + line)

    def _list(self, heads: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> None:
        """The same, for a terminal too narrow for columns: a block a row."""
        for number, row in enumerate(rows):
            if number:
                self.say()
            self.say(self.paint(row[0], GREEN))
            for head, cell in zip(heads[1:], row[1:], strict=True):
                if cell:
                    self.say(
                        textwrap.fill(
                            f"{head.lower()}: {cell}", total, initial_indent=GAP, subsequent_indent=GAP * 2
                        )
                    )


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]


class ProgressLine:
    """Progress of a call on standard error: one line that changes on a terminal, a line each elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._screen = Screen(sys.stderr if stream is None else stream)
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = False

    def __call__(self, progress: ProgressNotificationParams) -> None:
        """Show how far it is."""
        done = f"{progress.progress:g}"
        if progress.total:
            share = min(max(progress.progress / progress.total, 0.0), 1.0)
            done = f"{share:4.0%} ({progress.progress:g} of {progress.total:g})"
        said = " ".join([done, first_line(progress.message)]).rstrip()
        width = self._screen.width
        if width is None:
            self._screen.say(said.lstrip())
            return
        self._stream.write(f"\r\x1b[K{self._screen.paint(said[: width - 1], DIM)}")
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away: the result comes."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False
