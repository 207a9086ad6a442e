"""Output on a terminal, and in a pipe."""

import io
import os
import re

import pytest
from demo.picture import ASCII, UNICODE
from demo.terminal import CLEAR, ENTER, LEAVE, PlainLines, Terminal, glyphs_for, screen_for

from demonstration.run_logs import ending, outage


class FakeTerminal(io.StringIO):
    """A terminal whose size can change."""

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

    def read_new(self) -> str:
        """Return what was written since the last call."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def test_dumb_terminals_and_pipes_get_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    window = FakeTerminal(monkeypatch, (80, 24))
    assert isinstance(screen_for(window), Terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(screen_for(window), PlainLines)
    assert isinstance(screen_for(io.StringIO()), PlainLines)


def test_only_rows_that_changed_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    window, log = FakeTerminal(monkeypatch, (80, 24)), outage()
    terminal = Terminal(window)
    terminal.show(log, 12.0)
    assert window.read_new().startswith(CLEAR)
    terminal.show(log, 12.0)
    assert window.read_new() == ""
    log.add_line(12.0, "something new")
    terminal.show(log, 12.0)
    written = window.read_new()
    assert "something new" in written
    assert written.count("\x1b[2K") == 1


def test_a_resize_redraws_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    window = FakeTerminal(monkeypatch, (80, 24))
    terminal = Terminal(window)
    terminal.show(outage(), 12.0)
    window.read_new()
    window.size = (50, 12)
    terminal.show(outage(), 12.0)
    written = window.read_new()
    assert written.startswith(CLEAR)
    assert max(map(int, re.findall(r"\x1b\[(\d+);1H", written))) <= 12
    window.size = (0, 0)  # as some terminals report at first
    terminal.show(outage(), 12.0)
    assert "\x1b[20;1H" in window.read_new()


def test_removed_rows_are_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    window, log = FakeTerminal(monkeypatch, (80, 24)), outage()
    terminal = Terminal(window)
    for number in range(9):
        log.add_line(1.0, f"line {number}")
    terminal.show(log, 12.0)
    window.read_new()
    log.lines.clear()
    terminal.show(log, 12.0)
    assert window.read_new().endswith("\x1b[2K")


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    for no_color, has_colour in (("", True), ("1", False)):
        window = FakeTerminal(monkeypatch, (80, 24))
        monkeypatch.setenv("NO_COLOR", no_color)
        terminal = Terminal(window)
        terminal.show(ending(), 20.0)
        terminal.print_summary(ending(), 20.0)
        assert bool(re.search(r"\x1b\[[\d;]*m", window.read_new())) is has_colour


def test_the_terminal_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    window = FakeTerminal(monkeypatch, (80, 24))
    log = outage()
    log.enter(11.0, "no such state", 0)
    terminal = Terminal(window)
    with pytest.raises(ValueError, match="not in tuple"), terminal:
        terminal.show(log, 12.0)
    written = window.read_new()
    assert written.startswith(ENTER)
    assert written.endswith(LEAVE)


def test_a_pipe_gets_every_line_once_and_no_escape() -> None:
    stream, log = io.StringIO(), outage()
    with PlainLines(stream) as lines:
        lines.show(log, 12.0)
        lines.show(log, 12.0)
        log.add_line(13.0, "something new")
        lines.print_summary(ending(), 20.0)
    text = stream.getvalue()
    assert "\x1b" not in text
    assert text.count("1/5 Calls succeed.") == 1
    assert text.count("retry 3 in 4.0 s") == 1
    assert text.endswith("All outcomes agree with the ledger. hung 0, processes left 0.\n")


def test_glyphs_depend_on_the_encoding() -> None:
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert glyphs_for(plain) is ASCII
    assert glyphs_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) is UNICODE
    log = ending()
    log.add_line(16.0, "a reason from a server: »é«")
    PlainLines(plain).print_summary(log, 20.0)
    plain.flush()
    assert isinstance(plain.buffer, io.BytesIO)
    assert b"a reason from a server: ???" in plain.buffer.getvalue()
