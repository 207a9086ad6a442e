"""Terminal output: tables, colour, progress, escaped control characters."""

import asyncio
import io
from collections.abc import Callable

import pytest

from jackstay.cli._screen import (
    GREEN,
    Screen,
    StatusLine,
    display_width,
    escape_controls,
    first_line,
    hidden_status,
    paint_json,
    wrap,
)
from jackstay.types import ProgressNotificationParams

HEADS = ("NAME", "TEXT")
ROWS = [("one", "a few words"), ("another", "")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_are_escaped() -> None:
    assert escape_controls("\x1b[31mred\x07\x9b\u202e\x00\x7f") == "\\x1b[31mred\\x07\\x9b\\u202e\\x00\\x7f"
    assert escape_controls("a\tb\nc é 漢 🙂") == "a\tb\nc é 漢 🙂"
    assert escape_controls("over\rwritten") == "over\\rwritten"


def test_first_line() -> None:
    for text, line in ((None, ""), ("", ""), ("  \n\n one\ttwo \n three", "one two "), ("a\x1bb", "a\\x1bb")):
        assert first_line(text) == line


COLOURS = [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]


@pytest.mark.parametrize(("variables", "has_colour"), COLOURS)
def test_colour(variables: dict[str, str], has_colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Screen(Terminal()).paint("x", GREEN) == ("\x1b[32mx\x1b[0m" if has_colour else "x")
    assert Screen(Terminal()).paint("", GREEN) == ""
    assert Screen(io.StringIO()).paint("x", GREEN) == "x"


def test_a_table_in_a_pipe_is_plain_and_not_wrapped() -> None:
    stream = io.StringIO()
    Screen(stream).table(HEADS, [*ROWS, ("x", "word " * 100)])
    assert stream.getvalue().splitlines() == [
        "NAME     TEXT",
        "one      a few words",
        "another",
        "x        " + ("word " * 100).rstrip(),
    ]


def test_a_table_on_a_terminal_wraps_the_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(HEADS, [*ROWS, ("x", "word " * 10)])
    assert stream.getvalue().splitlines() == [
        "NAME     TEXT",
        "one      a few words",
        "another",
        "x        word word word word word word",
        "         word word word word",
    ]


def test_a_table_on_a_narrow_terminal_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(HEADS, ROWS)
    assert stream.getvalue() == "one\n  text: a few words\n\nanother\n"


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().print_line("text")
    assert capsys.readouterr().out == "text\n"


def report(progress: float, total: float | None = None, message: str | None = None) -> ProgressNotificationParams:
    return ProgressNotificationParams(progress_token=1, progress=progress, total=total, message=message)


REPORTS = [
    (report(3), "3"),
    (report(3, message="going"), "3 going"),
    (report(1, 4, "a\x1b"), "25% (1 of 4) a\\x1b"),
    (report(5, 4), "100% (5 of 4)"),
    (report(0.5, 0), "0.5"),
]


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for progress, line in REPORTS:
        line_printer = StatusLine()
        line_printer(progress)
        line_printer.clear()
        assert capsys.readouterr().err == f"{line}\n"


def test_progress_on_a_terminal_is_one_line(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(20)
    monkeypatch.setenv("NO_COLOR", "1")
    progress = StatusLine()
    progress(report(1, 2))
    progress(report(2, 2, "almost there, really"))
    progress.clear()
    progress.clear()
    assert capsys.readouterr().err == "\r\x1b[K 50% (1 of 2)\r\x1b[K100% (2 of 2) almos\r\x1b[K"


def test_wide_characters_take_two_columns(terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    assert [display_width(text) for text in ("abc", "日本", "é", "👍\ufe0f")] == [3, 4, 1, 2]
    terminal(80)
    Screen().table(("NAME", "TEXT"), [("日本", "x"), ("ab", "y")])
    assert [line[-1] for line in capsys.readouterr().out.splitlines()[1:]] == ["x", "y"]
    assert wrap("日本語 ab cdefgh no-break", 5) == ["日本", "語 ab", "cdefg", "h", "no-br", "eak"]
    assert wrap("", 5) == [""]
    assert wrap("語", 1) == ["語", ""]


async def test_a_wait_is_shown_after_a_moment_and_removed(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(80)
    shown = asyncio.Event()
    tick = StatusLine._tick

    def noticed(self: StatusLine, loop: asyncio.AbstractEventLoop) -> None:
        tick(self, loop)
        shown.set()

    monkeypatch.setattr(StatusLine, "_tick", noticed)
    with StatusLine("starting x\x1b"):
        await shown.wait()
    text = capsys.readouterr().err
    assert " s starting x\\x1b" in text
    assert text.endswith("\r\x1b[K")


async def test_no_wait_is_shown_while_the_user_types(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(80)
    with StatusLine("calling") as status:
        status(report(1, 2))
        capsys.readouterr()
        with hidden_status():
            assert capsys.readouterr().err == "\r\x1b[K"
            status(report(2, 2))
            assert capsys.readouterr().err == ""
        status(report(2, 2))
        assert "100%" in capsys.readouterr().err


def test_a_bar_shows_the_share(terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    terminal(80)
    StatusLine()(report(1, 2, "half"))
    assert f"{'█' * 12}{'░' * 12}  50% (1 of 2) half" in capsys.readouterr().err


def test_json_is_painted_only_in_colour(terminal: Callable[[int], None]) -> None:
    text = '{\n  "a": "b: 1",\n  "c": [1.5e3, null]\n}'
    assert paint_json(Screen(), text) == text
    terminal(80)
    painted = paint_json(Screen(), text)
    assert '\x1b[34m"a"\x1b[0m: \x1b[32m"b: 1"\x1b[0m' in painted
    assert "\x1b[33m1.5e3\x1b[0m" in painted
