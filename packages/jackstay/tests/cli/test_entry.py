"""The command as a process of its own: a signal at each moment of its life, and not a word on standard error."""

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

# `main()` without arguments is what a script or `python -m` calls. A parent that ignores SIGINT (a background job of a shell)
# hands that down, so it is said anew.
OWN = """\
import signal, sys
signal.signal(signal.SIGINT, signal.{inherited})
sys.argv[0] = "jackstay"
from jackstay.cli import main
sys.exit(main())
"""


def start(*words: str, inherited: str = "default_int_handler") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OWN.format(inherited=inherited), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A named pipe: whoever reads it waits for what was written."""
    os.mkfifo(tmp_path / "ledger")
    return tmp_path / "ledger"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_while_the_authors_code_is_loaded(number: int, code: int, ledger: Path) -> None:
    """`jackstay serve FILE`: nothing is served yet."""
    file = ledger.with_name("slow.py")
    # Short waits: a signal that arrives just before a long one is only seen after it.
    file.write_text(f"import time\nopen({str(ledger)!r}, 'w').close()\nwhile True:\n    time.sleep(0.05)\n")
    with start("serve", str(file)) as process:
        ledger.read_text()  # it is being loaded
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == code


def test_while_it_connects(ledger: Path) -> None:
    """A server that has been started, and says nothing."""
    silent = f"import sys; open({str(ledger)!r}, 'w').close(); sys.stdin.read()"
    with start("tools", "--", sys.executable, "-c", silent) as process:
        ledger.read_text()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_in_the_middle_of_a_call(number: int, code: int, ledger: Path) -> None:
    """In order: the call is cancelled on the wire."""
    with start("call", "hang", "--", sys.executable, str(PEER), f"--ledger={ledger}") as process:
        with ledger.open() as lines:
            call = next(json.loads(line) for line in lines if '"tools/call"' in line)
            process.send_signal(number)
            cancelled = json.loads(lines.read())
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == code
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", call["id"])


def test_twice_in_quick_succession(ledger: Path) -> None:
    """The second comes while the first is obeyed, and has the system's own meaning."""
    with start("watch", "--", sys.executable, str(PEER), f"--ledger={ledger}") as process:
        with ledger.open() as lines:
            next(line for line in lines if "notifications/initialized" in line)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert (process.returncode in (130, -signal.SIGINT), complaint) == (True, "")


def test_while_it_prints() -> None:
    """More than a pipe holds, to a reader that takes a line and pauses."""
    program = "print('x' * 65536, flush=True)\n" * 8
    planted = (
        "import jackstay.cli._states as states\n"
        f"def run(arguments):\n    {program.replace(chr(10), chr(10) + '    ')}return 0\nstates.run = run\n"
    )
    code = OWN.replace("sys.exit(main())", planted + "sys.exit(main())").format(
        inherited="default_int_handler"
    )
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
        _, complaint = process.communicate(timeout=30)
    assert (process.returncode, complaint) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_server_in_the_background_of_a_script_ends_on_the_others(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Its shell has made it ignore Ctrl-C."""
    (tmp_path / "app.py").write_text("from jackstay import Server\napp = Server('app')\n")
    with start("serve", str(tmp_path / "app.py"), "--http", "0", inherited="SIG_IGN") as process:
        assert process.stderr is not None
        assert "app serves http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(number)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0
