"""A terminal is drawn on and given back; a pipe gets lines."""

import io
import os
import re

import pytest
from demo.picture import ASCII, UNICODE
from demo.terminal import CLEAR, ENTER, LEAVE, PlainLines, Terminal, glyphs_for, screen_for

from demonstration.moments import ending, outage


class Window(io.StringIO):
    """A terminal of a size that can change."""

    encoding = "utf-8"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size
        monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size(self.size))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def taken(self) -> str:
        """What was written since the last time."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def test_only_a_terminal_that_can_be_drawn_on_is_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(monkeypatch, (80, 24))
    assert isinstance(screen_for(window), Terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(screen_for(window), PlainLines)
    assert isinstance(screen_for(io.StringIO()), PlainLines)


def test_only_rows_that_changed_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    window, chronicle = Window(monkeypatch, (80, 24)), outage()
    terminal = Terminal(window)
    terminal.show(chronicle, 12.0)
    assert window.taken().startswith(CLEAR)
    terminal.show(chronicle, 12.0)
    assert window.taken() == ""
    chronicle.say(12.0, "something new")
    terminal.show(chronicle, 12.0)
    written = window.taken()
    assert "something new" in written
    assert written.count("\x1b[2K") == 1


def test_a_window_of_another_size_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(monkeypatch, (80, 24))
    terminal = Terminal(window)
    terminal.show(outage(), 12.0)
    window.taken()
    window.size = (50, 12)
    terminal.show(outage(), 12.0)
    written = window.taken()
    assert written.startswith(CLEAR)
    assert max(map(int, re.findall(r"\x1b\[(\d+);1H", written))) <= 12
    window.size = (0, 0)  # as some say before they are drawn
    terminal.show(outage(), 12.0)
    assert "\x1b[20;1H" in window.taken()


def test_rows_that_are_no_longer_there_are_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    window, chronicle = Window(monkeypatch, (80, 24)), outage()
    terminal = Terminal(window)
    for number in range(9):
        chronicle.say(1.0, f"line {number}")
    terminal.show(chronicle, 12.0)
    window.taken()
    chronicle.lines.clear()
    terminal.show(chronicle, 12.0)
    assert window.taken().endswith("\x1b[2K")


def test_without_colour_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for no_color, has_colour in (("", True), ("1", False)):
        window = Window(monkeypatch, (80, 24))
        monkeypatch.setenv("NO_COLOR", no_color)
        terminal = Terminal(window)
        terminal.show(ending(), 20.0)
        terminal.leave_behind(ending(), 20.0)
        assert bool(re.search(r"\x1b\[[\d;]*m", window.taken())) is has_colour


def test_a_terminal_is_given_back_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(monkeypatch, (80, 24))
    chronicle = outage()
    chronicle.enter(11.0, "no such state", 0)
    terminal = Terminal(window)
    with pytest.raises(ValueError, match="not in tuple"), terminal:
        terminal.show(chronicle, 12.0)
    written = window.taken()
    assert written.startswith(ENTER)
    assert written.endswith(LEAVE)


def test_a_pipe_gets_every_line_once_and_no_escape() -> None:
    stream, chronicle = io.StringIO(), outage()
    with PlainLines(stream) as lines:
        lines.show(chronicle, 12.0)
        lines.show(chronicle, 12.0)
        chronicle.say(13.0, "something new")
        lines.leave_behind(ending(), 20.0)
    said = stream.getvalue()
    assert "\x1b" not in said
    assert said.count("1/5 Calls flow.") == 1
    assert said.count("retry 3 in 4.0 s") == 1
    assert said.endswith("Everybody was told the truth. hung 0, processes left 0.\n")


def test_a_stream_gets_only_characters_that_it_can_say() -> None:
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert glyphs_for(plain) is ASCII
    assert glyphs_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) is UNICODE
    chronicle = ending()
    chronicle.say(16.0, "a reason from a server: »é«")
    PlainLines(plain).leave_behind(chronicle, 20.0)
    plain.flush()
    assert isinstance(plain.buffer, io.BytesIO)
    assert b"a reason from a server: ???" in plain.buffer.getvalue()
