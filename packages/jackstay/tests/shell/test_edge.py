"""The edge of a command: whatever comes, an exit code and no traceback; in this process, and in processes of its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackstay.shell import run_command
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH

# A command that is the process's own. It says `begun`, and then does what the test wants.
OWN = """\
import signal, sys
signal.signal(signal.SIGINT, signal.{inherited})
from jackstay.shell import run_command
def work(words):
    print("begun", file=sys.stderr, flush=True)
    {does}
    return 0
code = run_command(work, None, name="boat", interrupted={interrupted}, terminated={terminated})
{after}
sys.exit(code)
"""
WAIT = "import threading; threading.Event().wait(50)"


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def own(
    does: str,
    *,
    inherited: str = "default_int_handler",
    interrupted: int = 130,
    terminated: int | None = None,
    after: str = "",
    **options: object,
) -> subprocess.Popen[str]:
    code = OWN.format(
        does=does, inherited=inherited, interrupted=interrupted, terminated=terminated, after=after
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},  # type: ignore[call-overload]  # any Popen option
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def begun(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"


# --- in this process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (SystemExit(2), 2, ""),
        (SystemExit(None), 0, ""),
        (SystemExit("not here"), 1, "not here\n"),
        (BrokenPipeError(), 0, ""),
        (KeyboardInterrupt(), 77, ""),
        (FileNotFoundError(2, "No such file", "x"), 1, "boat: [Errno 2] No such file: 'x'\n"),
    ],
)
def test_how_it_ends_decides_the_code(
    raised: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(words: list[str]) -> int:
        print("begun")
        raise raised

    assert run_command(work, [], name="boat", interrupted=77) == code
    assert capsys.readouterr() == ("begun\n", said)


def test_words_are_those_given_and_signals_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run_command(len, ["a", "b"], name="boat") == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_words_are_those_typed_where_the_process_is_the_commands_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from then on a Ctrl-C ends it at once."""
    ended: list[int] = []
    monkeypatch.setattr(sys, "argv", ["boat", "a", "b", "c"])
    monkeypatch.setattr("jackstay.shell._edge.os._exit", ended.append)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert run_command(len, None, name="boat", terminated=5) == 3
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended == [130, 5]


def test_off_the_main_thread_signals_are_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(sys, "argv", ["boat"])
    thread = threading.Thread(target=lambda: codes.append(run_command(len, None, name="boat")))
    thread.start()
    thread.join()
    assert codes == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_streams_that_are_not_there_or_closed_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run_command(len, [], name="boat") == 0


def test_nothing_can_be_told_where_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams are one pipe, and its reader is gone: the code is still ours."""
    reading, writing = os.pipe()
    os.close(reading)

    def work(words: list[str]) -> int:
        raise FileNotFoundError(2, "No such file", "x")

    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        assert run_command(work, [], name="boat") == 1
        print("more")  # as the interpreter's own last flush would


# --- in processes of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_it_at_once_and_silently(number: int, code: int) -> None:
    """Whatever it was doing; SIGTERM as the system has it, unless the command has a code for it."""
    with own(WAIT) as process:
        begun(process)
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == code


def test_a_command_may_call_both_signals_an_end_in_order() -> None:
    """As apcore-mcp does."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with own(WAIT, interrupted=0, terminated=0) as process:
            begun(process)
            process.send_signal(number)
            assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


def test_ctrl_c_where_python_would_swallow_it_is_no_complaint() -> None:
    """In a `__del__`, a KeyboardInterrupt is printed and forgotten: here the process ends."""
    does = f"D = type('D', (), {{'__del__': lambda self: __import__('threading').Event().wait(50)}}); D(); {WAIT}"
    with own(does) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


def test_ctrl_c_after_the_work_is_silent() -> None:
    """On the interpreter's way out."""
    with own("pass", after="print('ending', flush=True); " + WAIT) as process:
        begun(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


def test_a_background_job_that_ignores_ctrl_c_still_ends_on_sigterm() -> None:
    """A shell's `command &` in a script: SIGINT is ignored, and stays so."""
    with own(WAIT, inherited="SIG_IGN", terminated=0) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_a_reader_that_leaves_in_the_middle_is_met_quietly() -> None:
    """`command | head -1`."""
    with own("[print('line', number) for number in range(100_000)]") as process:
        begun(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 0


def test_a_second_distribution_of_the_same_package_is_refused_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(words: list[str]) -> int:
        raise AssertionError("nothing may run")

    (tmp_path / "apcore_mcp-0.23.3.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "absent"), str(tmp_path)])
    options = {"name": "apcore-mcp", "package": "apcore_mcp", "distribution": "jackstay-apcore"}
    assert run_command(work, [], **options) == 2  # type: ignore[arg-type]  # all are strings
    assert capsys.readouterr().err == (
        "apcore-mcp: apcore-mcp and jackstay-apcore both install the package apcore_mcp; run: pip uninstall "
        "apcore-mcp, then: pip install --force-reinstall --no-deps jackstay-apcore\n"
    )


def test_a_package_of_one_distribution_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jackstay_apcore-0.1.0.dist-info").mkdir()
    (tmp_path / "apcore_mcp_extra-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert (
        run_command(lambda words: 0, [], name="x", package="apcore_mcp", distribution="jackstay-apcore") == 0
    )
