"""Terminal output: tables and colour.

Colour and line wrapping are used only on a terminal. Text from a server is not trusted: on a terminal and in tables,
control characters are escaped.
"""

import itertools
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TextIO

from jackstay.shell._status_line import output, terminal_width

# Styles for `Screen.paint()`: parameters of the escape sequence SGR (ECMA-48).
BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
BLUE: Final = "34"
CYAN: Final = "36"

# The narrowest last column of a table. Below it, rows are printed as lists.
MIN_WIDTH: Final = 24
# A column between the first and the last is wrapped if it is wider than this, so that the last one has room.
MAX_MIDDLE_WIDTH: Final = 32
GAP: Final = "  "

# Control characters and bidirectional overrides, except tab and newline.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Replace control characters by escape sequences, as in `\\x1b`."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def display_width(text: str) -> int:
    """Return the number of columns that a string takes on a terminal: East Asian characters and emoji take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) or one in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines of at most this many columns. A word that is longer than a line is broken."""
    lines = [""]
    for word in text.split():
        rest = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(rest) > width and lines[-1]:
            lines.append("")
            rest = word
        while display_width(rest) > width:
            end = 1
            while display_width(rest[: end + 1]) <= width:
                end += 1
            lines[-1], rest = rest[:end], rest[end:]
            lines.append("")
        lines[-1] = rest
    return lines


def first_line(text: str | None) -> str:
    """Return the first non-empty line with control characters escaped, for a table."""
    lines = (text or "").strip().splitlines()
    return escape_controls(lines[0]).replace("\t", " ") if lines else ""


def print_error(program: str, message: str, hint: str = "") -> None:
    """Print an error of a command to standard error, and what to do about it in a line of its own."""
    screen = Screen(sys.stderr)
    screen.print_line(f"{screen.paint(f'{program}:', RED)} {escape_controls(message)}")
    if hint:
        screen.print_line(f"  {escape_controls(hint)}")


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
        return terminal_width(self._stream) if self.is_terminal else None

    def paint(self, text: str, colour: str) -> str:
        """Return the text in that colour, if the stream has colour."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colour and text and colour else text

    def print_line(self, line: str = "") -> None:
        """Print one line unchanged, and flush."""
        with output():
            print(line, file=self._stream, flush=True)

    def print_wrapped(self, text: str) -> None:
        """Print lines with control characters escaped; on a terminal they are wrapped and keep their indentation."""
        total = self.width
        for line in escape_controls(text).splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            lines = [line.strip()] if total is None else wrap(line, total - len(indent))
            self.print_line("\n".join(f"{indent}{part}".rstrip() for part in lines))

    def table(
        self, heads: Sequence[str], table: Iterable[Sequence[object]], colours: Mapping[str, str] | None = None
    ) -> None:
        """Print columns with headings. On a terminal, all but the first are wrapped.

        Control characters are escaped. A cell that is None is empty. The first column is green; `colours` has those of
        other cells, by their text.
        """
        rows = [["" if cell is None else escape_controls(str(cell)) for cell in row] for row in table]
        # The last column is not padded.
        widths = [max(display_width(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)] + [0]
        lines: Iterable[Sequence[str]] = rows
        if self.width is not None:
            widths[1:] = [min(width, MAX_MIDDLE_WIDTH) for width in widths[1:]]
            rest = self.width - sum(widths) - len(GAP) * (len(heads) - 1)
            if rest < MIN_WIDTH:
                self._list(heads, rows, self.width)
                return
            lines = itertools.chain.from_iterable(_wrapped(row, [*widths[1:-1], rest]) for row in rows)
        self.print_line(self.paint(GAP.join(_padded(heads, widths)), BOLD))
        for line in lines:
            painted = [
                self.paint(text, (colours or {}).get(text.rstrip(), "") if column else GREEN)
                for column, text in enumerate(_padded(line, widths))
            ]
            self.print_line(GAP.join(painted).rstrip())

    def _list(self, heads: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> None:
        """Print each row as a block, for a terminal that is too narrow for columns."""
        for number, row in enumerate(rows):
            if number:
                self.print_line()
            self.print_line(self.paint(row[0], GREEN))
            for head, cell in zip(heads[1:], row[1:], strict=True):
                if cell:
                    lines = wrap(f"{head.lower()}: {cell}", total - 2 * len(GAP))
                    self.print_line(f"\n{GAP * 2}".join([f"{GAP}{lines[0]}", *lines[1:]]))


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Iterate over the lines of a row of a table: the cells after the first are wrapped to these widths."""
    cells = [wrap(cell, width) for cell, width in zip(row[1:], widths, strict=True)]
    return itertools.zip_longest([row[0]], *cells, fillvalue="")


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]


# A string that is a key, another string, and a number or constant of indented JSON.
_JSON = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)|("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*|true|false|null)')


def paint_json(screen: Screen, text: str) -> str:
    """Return indented JSON in colour, if the screen has colour."""
    if not screen.has_colour:
        return text

    def paint(found: re.Match[str]) -> str:
        if found[2] is not None:
            return screen.paint(found[1], BLUE) + found[2]
        return screen.paint(found[3], GREEN) if found[3] is not None else screen.paint(found[4], YELLOW)

    return _JSON.sub(paint, text)
