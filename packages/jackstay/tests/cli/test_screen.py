"""What people see: columns that fit, colour only where there is some, and no servant of the server's in their terminal."""

import io
from collections.abc import Callable

import pytest

from jackstay.cli._screen import GREEN, ProgressLine, Screen, clean, first_line
from jackstay.types import ProgressNotificationParams

HEADS = ("NAME", "SAYS")
ROWS = [("one", "a few words"), ("another", "")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert clean("\x1b[31mred\x07\x9b\u202e\x00\x7f") == "\\x1b[31mred\\x07\\x9b\\u202e\\x00\\x7f"
    assert clean("a\tb\nc é 漢 🙂") == "a\tb\nc é 漢 🙂"
    assert clean("over\rwritten") == "over\\rwritten"


@pytest.mark.parametrize(
    ("text", "line"), [(None, ""), ("", ""), ("  \n\n one\ttwo \n three", "one two "), ("a\x1bb", "a\\x1bb")]
)
def test_the_first_line_that_says_something(text: str | None, line: str) -> None:
    assert first_line(text) == line


COLOURS = [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]


@pytest.mark.parametrize(("variables", "has_colour"), COLOURS)
def test_colour_is_for_terminals_that_want_it(
    variables: dict[str, str], has_colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Screen(Terminal()).paint("x", GREEN) == ("\x1b[32mx\x1b[0m" if has_colour else "x")
    assert Screen(Terminal()).paint("", GREEN) == ""
    assert Screen(io.StringIO()).paint("x", GREEN) == "x"


def test_into_a_pipe_a_table_is_plain_and_never_broken() -> None:
    stream = io.StringIO()
    Screen(stream).table(HEADS, [*ROWS, ("x", "word " * 100)])
    assert stream.getvalue().splitlines() == [
        "NAME     SAYS",
        "one      a few words",
        "another",
        "x        " + ("word " * 100).rstrip(),
    ]


def test_on_a_terminal_the_last_column_is_broken_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(HEADS, [*ROWS, ("x", "word " * 10)])
    assert stream.getvalue().splitlines() == [
        "NAME     SAYS",
        "one      a few words",
        "another",
        "x        word word word word word word",
        "         word word word word",
    ]


def test_a_terminal_too_narrow_for_columns_gets_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(HEADS, ROWS)
    assert stream.getvalue() == "one\n  says: a few words\n\nanother\n"


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().say("said")
    assert capsys.readouterr().out == "said\n"


def report(
    progress: float, total: float | None = None, message: str | None = None
) -> ProgressNotificationParams:
    return ProgressNotificationParams(progress_token=1, progress=progress, total=total, message=message)


REPORTS = [
    (report(3), "3"),
    (report(3, message="going"), "3 going"),
    (report(1, 4, "a\x1b"), "25% (1 of 4) a\\x1b"),
    (report(5, 4), "100% (5 of 4)"),
    (report(0.5, 0), "0.5"),
]


@pytest.mark.parametrize(("progress", "line"), REPORTS)
def test_progress_is_a_line_each_where_there_is_no_terminal(
    progress: ProgressNotificationParams, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ProgressLine()
    shown(progress)
    shown.clear()
    assert capsys.readouterr().err == f"{line}\n"


def test_on_a_terminal_progress_is_one_line_that_changes_and_goes(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(20)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = ProgressLine()
    shown(report(1, 2))
    shown(report(2, 2, "almost there, really"))
    shown.clear()
    shown.clear()
    assert capsys.readouterr().err == "\r\x1b[K 50% (1 of 2)\r\x1b[K100% (2 of 2) almos\r\x1b[K"
