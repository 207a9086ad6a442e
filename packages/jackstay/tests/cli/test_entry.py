"""The command as a process: signals at every stage, without output on standard error."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripted.places import PYTHONPATH, TESTS

SOURCE = PYTHONPATH
PEER = TESTS / "peers" / "stdio_server.py"

# Entry points call `main()` without arguments. A background job of a shell ignores SIGINT and passes that on, so it is
# set here.
PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.{inherited})
sys.argv[0] = "jackstay"
from jackstay.cli import main
sys.exit(main())
"""


def start(*words: str, inherited: str = "default_int_handler") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(inherited=inherited), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A named pipe: reading it waits for the writer."""
    os.mkfifo(tmp_path / "ledger")
    return tmp_path / "ledger"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_signal_while_the_users_code_is_imported(number: int, code: int, ledger: Path) -> None:
    """In `jackstay serve FILE`."""
    file = ledger.with_name("slow.py")
    # Short waits: a signal that arrives just before a long one is handled only after it.
    file.write_text(f"import time\nopen({str(ledger)!r}, 'w').close()\nwhile True:\n    time.sleep(0.05)\n")
    with start("serve", str(file)) as process:
        ledger.read_text()  # it is being imported
        process.send_signal(number)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == code


def test_signal_while_connecting(ledger: Path) -> None:
    """To a server that was started and sends nothing."""
    silent = f"import sys; open({str(ledger)!r}, 'w').close(); sys.stdin.read()"
    with start("tools", "--", sys.executable, "-c", silent) as process:
        ledger.read_text()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_during_a_call(number: int, code: int, ledger: Path) -> None:
    """The server receives a cancellation."""
    with start("call", "hang", "--", sys.executable, str(PEER), f"--ledger={ledger}") as process:
        with ledger.open() as lines:
            call = next(json.loads(line) for line in lines if '"tools/call"' in line)
            process.send_signal(number)
            cancelled = json.loads(lines.read())
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == code
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", call["id"])


def test_two_signals_in_quick_succession(ledger: Path) -> None:
    """The second arrives while the first is handled, and has its default action."""
    with start("watch", "--", sys.executable, str(PEER), f"--ledger={ledger}") as process:
        with ledger.open() as lines:
            next(line for line in lines if "notifications/initialized" in line)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=240)
    assert (process.returncode in (130, -signal.SIGINT), stderr) == (True, "")


def test_signal_while_printing() -> None:
    """More than a pipe can hold."""
    program = "print('x' * 65536, flush=True)\n" * 8
    patch = (
        "import jackstay.cli._states as states\n"
        f"def run(arguments):\n    {program.replace(chr(10), chr(10) + '    ')}return 0\nstates.run = run\n"
    )
    code = PROGRAM.replace("sys.exit(main())", patch + "sys.exit(main())").format(inherited="default_int_handler")
    with subprocess.Popen(
        [sys.executable, "-c", code, "states"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == "x"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=240)
    assert (process.returncode, stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_background_server_ends_on_sigterm_and_sighup(number: signal.Signals, tmp_path: Path) -> None:
    """The shell makes background jobs ignore SIGINT."""
    (tmp_path / "app.py").write_text("from jackstay import Server\napp = Server('app')\n")
    with start("serve", str(tmp_path / "app.py"), "--http", "0", inherited="SIG_IGN") as process:
        assert process.stderr is not None
        assert "app serves http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(number)
        assert process.communicate(timeout=240) == ("", "")
    assert process.returncode == 0
