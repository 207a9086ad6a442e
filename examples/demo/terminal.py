"""Shows the run: drawn in place on a terminal, as plain lines everywhere else.

On a terminal the alternate screen is used, and restored in any case; the summary is printed on the normal screen.
"""

import os
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TextIO

from demo.log import RunLog
from demo.picture import ASCII, UNICODE, Glyphs, Row, Style, draw, summary, text_of

# Enter and leave the alternate screen, without a cursor.
ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
CLEAR = "\x1b[2J"

COLOURS = {
    Style.PLAIN: "",
    Style.FAINT: "2",
    Style.HEAD: "1",
    Style.GOOD: "32",
    Style.BAD: "31",
    Style.WARNING: "1;33",
    Style.RETRIED: "36",
}
# Used if the size is unknown.
DEFAULT_SIZE = (80, 24)


class Screen(AbstractContextManager["Screen"], Protocol):
    """Shows the log. Entered once."""

    def show(self, log: RunLog, now: float) -> None:
        """Show the log at this time."""

    def print_summary(self, log: RunLog, now: float) -> None:
        """Print the summary after the run."""


def screen_for(stream: TextIO) -> Screen:
    """Return a Terminal if the stream is one that can be drawn on, else PlainLines."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Terminal(stream)
    return PlainLines(stream)


def glyphs_for(stream: TextIO) -> Glyphs:
    """Return the characters that this stream can encode."""
    text = "".join((*UNICODE.marks.values(), *UNICODE.states.values(), UNICODE.arrow, UNICODE.more))
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class PlainLines:
    """Prints the lines of the log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = glyphs_for(stream)
        self._printed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, log: RunLog, now: float) -> None:  # noqa: ARG002  # lines contain their time
        """Print new lines."""
        for line in log.lines[self._printed :]:
            self._print(f"\n{line.text}" if line.is_head else f"{line.at:7.1f} s  {line.text}")
        self._printed = len(log.lines)

    def print_summary(self, log: RunLog, now: float) -> None:
        """Print the remaining lines and the summary, without colour."""
        self.show(log, now)
        self._print("")
        for row in summary(log, now, DEFAULT_SIZE[0], self._glyphs):
            self._print(text_of(row).rstrip())

    def _print(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), file=self._stream, flush=True)


class Terminal:
    """Draws pictures in place. Only changed rows are written, or all after a resize."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = glyphs_for(stream)
        # https://no-color.org: any value that is not empty turns colour off.
        self._has_colour = not os.environ.get("NO_COLOR")
        self._size = (0, 0)
        self._rows: list[str] = []

    def __enter__(self) -> Self:
        self._write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(LEAVE)

    def show(self, log: RunLog, now: float) -> None:
        """Draw the picture over the previous one."""
        size = self._measure()
        written = ""
        if size != self._size:
            self._size, self._rows, written = size, [], CLEAR
        rows = [self._paint(row) for row in draw(log, now, size, self._glyphs)]
        for number in range(max(len(rows), len(self._rows))):
            row = rows[number] if number < len(rows) else ""
            if number >= len(self._rows) or self._rows[number] != row:
                # Erased first: after a full line the cursor is on its last character.
                written += f"\x1b[{number + 1};1H\x1b[2K{row}"
        self._rows = rows
        if written:
            self._write(written)

    def print_summary(self, log: RunLog, now: float) -> None:
        """Print the summary on the normal screen."""
        columns, _ = self._measure()
        for row in summary(log, now, columns, self._glyphs):
            self._write(self._paint(row) + "\n")

    def _measure(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return DEFAULT_SIZE
        # Some terminals report 0 x 0 at first.
        return (size.columns or DEFAULT_SIZE[0], size.lines or DEFAULT_SIZE[1])

    def _paint(self, row: Row) -> str:
        if not self._has_colour:
            return text_of(row).rstrip()
        painted = (
            f"\x1b[{COLOURS[span.style]}m{span.text}\x1b[0m" if COLOURS[span.style] else span.text for span in row
        )
        return "".join(painted)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
