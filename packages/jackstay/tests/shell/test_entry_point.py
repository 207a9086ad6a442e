"""`run_command()`: exit codes and no traceback, in this process and in child processes."""

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

# A program that runs one command. It prints `started`, and then does what the test wants.
PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.{inherited})
from jackstay.shell import run_command
def work(words):
    print("started", file=sys.stderr, flush=True)
    {does}
    return 0
code = run_command(work, None, name="boat", interrupted={interrupted}, terminated={terminated})
{after}
sys.exit(code)
"""
WAIT = "import threading; threading.Event().wait(50)"


@pytest.fixture(autouse=True)
def restore_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start(
    does: str,
    *,
    inherited: str = "default_int_handler",
    interrupted: int = 130,
    terminated: int | None = None,
    after: str = "",
    **options: object,
) -> subprocess.Popen[str]:
    code = PROGRAM.format(does=does, inherited=inherited, interrupted=interrupted, terminated=terminated, after=after)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},  # type: ignore[call-overload]  # any Popen option
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def wait_until_started(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"


# --- in this process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (SystemExit(2), 2, ""),
        (SystemExit(None), 0, ""),
        (SystemExit("not here"), 1, "not here\n"),
        (BrokenPipeError(), 0, ""),
        (KeyboardInterrupt(), 77, ""),
        (FileNotFoundError(2, "No such file", "x"), 1, "boat: [Errno 2] No such file: 'x'\n"),
    ],
)
def test_exit_code_of_an_exception(
    raised: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(words: list[str]) -> int:
        print("started")
        raise raised

    assert run_command(work, [], name="boat", interrupted=77) == code
    assert capsys.readouterr() == ("started\n", message)


def test_with_argv_signal_handlers_are_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run_command(len, ["a", "b"], name="boat") == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_without_argv_it_uses_sys_argv_and_handles_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal terminates the process at once."""
    ended: list[int] = []
    monkeypatch.setattr(sys, "argv", ["boat", "a", "b", "c"])
    monkeypatch.setattr("jackstay.shell._entry_point.os._exit", ended.append)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert run_command(len, None, name="boat", terminated=5) == 3
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended == [130, 5]


def test_in_another_thread_signal_handlers_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(sys, "argv", ["boat"])
    thread = threading.Thread(target=lambda: codes.append(run_command(len, None, name="boat")))
    thread.start()
    thread.join()
    assert codes == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_missing_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run_command(len, [], name="boat") == 0


def test_standard_error_is_a_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams are one pipe without a reader: the exit code is unchanged."""
    reading, writing = os.pipe()
    os.close(reading)

    def work(words: list[str]) -> int:
        raise FileNotFoundError(2, "No such file", "x")

    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        assert run_command(work, [], name="boat") == 1
        print("more")  # like the flush of the interpreter at exit


# --- in child processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_terminates_silently(number: int, code: int) -> None:
    """SIGTERM has its default action, unless the command has an exit code for it."""
    with start(WAIT) as process:
        wait_until_started(process)
        process.send_signal(number)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == code


def test_exit_codes_of_signals_can_be_set() -> None:
    """Used by apcore-mcp."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with start(WAIT, interrupted=0, terminated=0) as process:
            wait_until_started(process)
            process.send_signal(number)
            assert process.communicate(timeout=240) == ("", "")
        assert process.returncode == 0


def test_sigint_in_a_finalizer() -> None:
    """Python prints and ignores a KeyboardInterrupt in `__del__`; here the process ends."""
    does = f"D = type('D', (), {{'__del__': lambda self: __import__('threading').Event().wait(50)}}); D(); {WAIT}"
    with start(does) as process:
        wait_until_started(process)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 130


def test_sigint_at_interpreter_exit_is_silent() -> None:
    with start("pass", after="print('ending', flush=True); " + WAIT) as process:
        wait_until_started(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 130


def test_a_background_job_that_ignores_sigint_ends_on_sigterm() -> None:
    """In a script, `command &` ignores SIGINT."""
    with start(WAIT, inherited="SIG_IGN", terminated=0) as process:
        wait_until_started(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 0


def test_a_closed_pipe_is_silent() -> None:
    """As in `command | head -1`."""
    with start("[print('line', number) for number in range(100_000)]") as process:
        wait_until_started(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(120) == 0


def test_a_second_distribution_of_the_same_package_is_an_error(
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


def test_a_package_of_one_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jackstay_apcore-0.1.0.dist-info").mkdir()
    (tmp_path / "apcore_mcp_extra-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert run_command(lambda words: 0, [], name="x", package="apcore_mcp", distribution="jackstay-apcore") == 0
