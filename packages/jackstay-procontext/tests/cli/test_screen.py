"""Terminal output: colour, progress and tables."""

import io
import sys

import pytest

from procontext.cli._screen import ProgressBar, format_table, has_colour, print_error, printable, styled


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_need_a_terminal_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """See https://no-color.org."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled("x", "bold", Terminal()) == "\x1b[1mx\x1b[0m"
    assert styled("x", "bold", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour(Terminal())


def test_control_characters_are_replaced() -> None:
    assert printable("plain") == "plain"
    assert printable("a\x1b]0;title\x07\tb\nc\x9b") == "a\ufffd]0;title\ufffd\tb\nc\ufffd"


def test_progress_bar_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, silent = Terminal(), io.StringIO()
    for stream in (shown, silent):
        bar = ProgressBar("lib", stream)
        bar(0, 0, "")
        bar(1, 2, "https://x/\x1b[2J")
        bar.close()
    assert silent.getvalue() == ""
    assert "lib [##########..........] 1/2 https://x/\ufffd[2J" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[2K")
    monkeypatch.setattr(sys, "stderr", Terminal())
    ProgressBar("x").close()


def test_format_table() -> None:
    """Rows have no trailing spaces."""
    assert format_table([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"


def test_print_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are printed on standard error."""
    print_error("wrong", "do this")
    print_error("wrong")
    assert capsys.readouterr() == ("", "procontext: wrong\n  do this\nprocontext: wrong\n")


def test_closed_stream_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """`procontext doctor >&-`: the stream is None."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert styled("x", "red") == styled("x", "red", sys.stderr) == "x"
    bar = ProgressBar("x")
    bar(1, 2, "y")
    bar.close()
