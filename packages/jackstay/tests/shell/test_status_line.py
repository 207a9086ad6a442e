"""The status line: drawn while something is waited for, removed before anything else is printed."""

import io
import os
import subprocess
import sys
import time
from typing import TextIO

import pytest

from jackstay.shell import Screen, StatusLine, erase_before_exit, erase_status, hidden_status
from jackstay.shell import _status_line as module
from scripted.terminal import StatusTerminal

ERASE = "\r\x1b[K"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> StatusTerminal:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return StatusTerminal()


REPORTS: list[tuple[tuple[float, float | None, str | None], str]] = [
    ((3, None, None), "3"),
    ((3, None, "going\nand more"), "3 going"),
    ((1, 4, "a\x1b"), "25% (1 of 4) a\\x1b"),
    ((5, 4, None), "100% (5 of 4)"),
    ((0.5, 0, None), "0.5"),
]


def test_progress_without_a_terminal_is_a_line_each() -> None:
    for report, line in REPORTS:
        pipe = io.StringIO()
        with StatusLine("calling", pipe) as status:
            status.report(*report)
        assert pipe.getvalue() == f"{line}\n"


def test_progress_on_a_terminal_is_one_line(stream: StatusTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    status = StatusLine(stream=stream)
    status.report(1, 2)
    status.report(2, 2, "almost there, really")
    status.clear()
    status.clear()
    assert stream.getvalue() == f"{ERASE} 50% (1 of 2)\r{ERASE}100% (2 of 2) almos\r{ERASE}"


def test_a_bar_shows_the_share(stream: StatusTerminal) -> None:
    StatusLine(stream=stream).report(1, 2, "half")
    assert f"{'█' * 12}{'░' * 12}  50% (1 of 2) half" in stream.getvalue()


def test_a_wait_is_drawn_and_removed(stream: StatusTerminal) -> None:
    """The main thread is blocked meanwhile, as in an import."""
    with StatusLine("starting x\x1b", stream):
        stream.wait_for(" s starting x\\x1b")
    assert stream.getvalue().endswith(f"\r{ERASE}")


def test_the_first_line_counts_from_the_start_of_the_process() -> None:
    """A busy machine needs long for the start of Python, and the user waits meanwhile."""
    program = (
        "import time\nfrom jackstay.shell._status_line import process_age\nprint(time.process_time(), process_age())\n"
    )
    began = time.monotonic()
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    elapsed = time.monotonic() - began
    used, age = map(float, printed.split())
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert used <= age <= elapsed + tick


def test_without_proc_the_age_is_the_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    before = time.process_time()
    assert before <= module.process_age() <= time.process_time()


@pytest.mark.parametrize("age", [0.0, 1000.0])
def test_an_old_process_that_has_shown_nothing_draws_at_once(
    stream: StatusTerminal, monkeypatch: pytest.MonkeyPatch, age: float
) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 1000.0)
    monkeypatch.setattr(module, "_last_output_at", None)
    monkeypatch.setattr(module, "process_age", lambda: age)
    with StatusLine("starting", stream):
        if age:
            stream.wait_for(" s starting")
    assert ("starting" in stream.getvalue()) == bool(age)


def test_a_long_wait_has_a_hint(stream: StatusTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HINT_SECONDS", 0.0)
    with StatusLine("starting x", stream, hint="is it slow?"):
        stream.wait_for(" s is it slow? (starting x)")


def test_the_line_fits_the_terminal(stream: StatusTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    with StatusLine("日本語 text", stream):
        stream.wait_for("0 s 日本\r")


def test_a_short_wait_shows_nothing(stream: StatusTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 1000.0)
    Screen(stream).print_line("text")
    with StatusLine("closing", stream):
        pass
    assert stream.getvalue() == "text\n"


def test_only_the_innermost_wait_is_drawn(stream: StatusTerminal) -> None:
    with StatusLine("outer", stream) as outer, StatusLine("inner", stream):
        stream.wait_for("inner")
        before = stream.getvalue().count("outer")
        outer.report(1)
        assert stream.getvalue().count("outer") == before


def test_no_wait_is_shown_while_the_user_types(stream: StatusTerminal) -> None:
    with StatusLine("calling", stream) as status:
        status.report(1, 2)
        with hidden_status():
            before = stream.getvalue()
            assert before.endswith(ERASE)
            status.report(2, 2)
            assert stream.getvalue() == before
        status.report(2, 2)
        assert "100%" in stream.getvalue()


def test_printing_removes_the_line(stream: StatusTerminal) -> None:
    with StatusLine("calling", stream) as status:
        status.report(1, 2, "half")
        Screen(stream).print_line("text")
        assert stream.getvalue().endswith(f"half\r{ERASE}text\n")
        status.report(1, 2, "half")
        assert erase_status()
        assert stream.getvalue().endswith(f"half\r{ERASE}")


def test_a_signal_handler_removes_the_line(stream: StatusTerminal, capfd: pytest.CaptureFixture[str]) -> None:
    with StatusLine("calling", stream) as status:
        erase_before_exit()
        assert capfd.readouterr().err == ""
        status.report(1, 2)
        erase_before_exit()
        assert capfd.readouterr().err == ERASE


class Closed(io.StringIO):
    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError("the terminal is gone")


@pytest.mark.parametrize("gone", [Closed(), None])
def test_a_terminal_that_is_gone_is_no_error(gone: TextIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", gone)
    with StatusLine("calling") as status:
        status.report(1, 2)
