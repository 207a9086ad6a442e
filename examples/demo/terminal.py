"""Where the story is shown: drawn in place on a terminal, as plain lines everywhere else.

A terminal is given back as it was found, whatever happens: the pictures are drawn on its second screen, and the last one
is left on the first. Into a pipe goes no escape and no picture, only what is worth a line.

Above: `__main__`. Below: `picture`, `chronicle`, the terminal.
"""

import os
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, TextIO

from demo.chronicle import Chronicle
from demo.picture import ASCII, UNICODE, Glyphs, Row, Style, draw, summary, text_of

# The second screen without a cursor, and back.
ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
CLEAR = "\x1b[2J"

COLOURS = {
    Style.PLAIN: "",
    Style.FAINT: "2",
    Style.HEAD: "1",
    Style.GOOD: "32",
    Style.BAD: "31",
    Style.DOUBT: "1;33",
    Style.AGAIN: "36",
}
# For what has no terminal to ask.
USUAL_SIZE = (80, 24)


class Screen(AbstractContextManager["Screen"], Protocol):
    """What shows moments. Entered once; `show` as often as one likes."""

    def show(self, chronicle: Chronicle, now: float) -> None:
        """Show this moment."""

    def leave_behind(self, chronicle: Chronicle, now: float) -> None:
        """After the end: what stays."""


def screen_for(stream: TextIO) -> Screen:
    """A terminal where there is one that can be drawn on, plain lines elsewhere."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Terminal(stream)
    return PlainLines(stream)


def glyphs_for(stream: TextIO) -> Glyphs:
    """The characters that this stream can say."""
    said = "".join((*UNICODE.marks.values(), *UNICODE.states.values(), UNICODE.arrow, UNICODE.more))
    try:
        said.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class PlainLines:
    """What is worth a line, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = glyphs_for(stream)
        self._said = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, chronicle: Chronicle, now: float) -> None:  # noqa: ARG002  # a line has a time of its own
        """Say what has not been said yet."""
        for line in chronicle.lines[self._said :]:
            self._say(f"\n{line.text}" if line.is_head else f"{line.at:7.1f} s  {line.text}")
        self._said = len(chronicle.lines)

    def leave_behind(self, chronicle: Chronicle, now: float) -> None:
        """The whole of it, without colours."""
        self.show(chronicle, now)
        self._say("")
        for row in summary(chronicle, now, USUAL_SIZE[0], self._glyphs):
            self._say(text_of(row).rstrip())

    def _say(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), file=self._stream, flush=True)


class Terminal:
    """Pictures in place. Only rows that changed are written; a window of another size is drawn anew."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._glyphs = glyphs_for(stream)
        # https://no-color.org: present and not empty means none.
        self._has_colour = not os.environ.get("NO_COLOR")
        self._size = (0, 0)
        self._shown: list[str] = []

    def __enter__(self) -> Self:
        self._write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(LEAVE)

    def show(self, chronicle: Chronicle, now: float) -> None:
        """Draw the moment over the one before."""
        size = self._measure()
        written = ""
        if size != self._size:
            self._size, self._shown, written = size, [], CLEAR
        rows = [self._paint(row) for row in draw(chronicle, now, size, self._glyphs)]
        for number in range(max(len(rows), len(self._shown))):
            row = rows[number] if number < len(rows) else ""
            if number >= len(self._shown) or self._shown[number] != row:
                # Erased first: at the end of a full line the cursor stands on its last character.
                written += f"\x1b[{number + 1};1H\x1b[2K{row}"
        self._shown = rows
        if written:
            self._write(written)

    def leave_behind(self, chronicle: Chronicle, now: float) -> None:
        """The last picture, on the screen that stays."""
        columns, _ = self._measure()
        for row in summary(chronicle, now, columns, self._glyphs):
            self._write(self._paint(row) + "\n")

    def _measure(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return USUAL_SIZE
        # Some terminals say 0 x 0 until they are drawn.
        return (size.columns or USUAL_SIZE[0], size.lines or USUAL_SIZE[1])

    def _paint(self, row: Row) -> str:
        if not self._has_colour:
            return text_of(row).rstrip()
        painted = (
            f"\x1b[{COLOURS[span.style]}m{span.text}\x1b[0m" if COLOURS[span.style] else span.text
            for span in row
        )
        return "".join(painted)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
