"""Terminal output: tables, colour, escaped control characters."""

import io

import pytest

from jackstay.shell import (
    GREEN,
    YELLOW,
    Screen,
    display_width,
    escape_controls,
    first_line,
    paint_json,
    print_error,
    wrap,
)

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


def test_wide_columns_leave_room_for_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(("NAME", "ARGUMENTS", "TEXT"), [("one", "argument " * 5, "a " * 20), ("two", "", "b")])
    assert stream.getvalue().splitlines() == [
        "NAME  ARGUMENTS                         TEXT",
        "one   argument argument argument        a a a a a a a a a a a a a a a",
        "      argument argument                 a a a a a",
        "two                                     b",
    ]


def test_cells_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    Screen(stream).table(("NAME", "STATUS", "TEXT"), [("one", "ok", "text")], {"ok": YELLOW})
    assert stream.getvalue().splitlines()[1] == "\x1b[32mone \x1b[0m  \x1b[33mok    \x1b[0m  text"


def test_an_error_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("program", "failed\x1b", "do this")
    assert capsys.readouterr() == ("", "program: failed\\x1b\n  do this\n")


def test_a_table_on_a_narrow_terminal_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Screen(stream).table(HEADS, ROWS)
    assert stream.getvalue() == "one\n  text: a few words\n\nanother\n"


def test_standard_output_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().print_line("text")
    assert capsys.readouterr().out == "text\n"


def test_wide_characters_take_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [display_width(text) for text in ("abc", "日本", "é", "👍\ufe0f")] == [3, 4, 1, 2]
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    Screen(stream).table(("NAME", "TEXT"), [("日本", "x"), ("ab", "y")])
    assert [line[-1] for line in stream.getvalue().splitlines()[1:]] == ["x", "y"]
    assert wrap("日本語 ab cdefgh no-break", 5) == ["日本", "語 ab", "cdefg", "h", "no-br", "eak"]
    assert wrap("", 5) == [""]
    assert wrap("語", 1) == ["語", ""]


def test_json_is_painted_only_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = '{\n  "a": "b: 1",\n  "c": [1.5e3, null]\n}'
    assert paint_json(Screen(io.StringIO()), text) == text
    painted = paint_json(Screen(Terminal()), text)
    assert '\x1b[34m"a"\x1b[0m: \x1b[32m"b: 1"\x1b[0m' in painted
    assert "\x1b[33m1.5e3\x1b[0m" in painted
