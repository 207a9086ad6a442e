"""The whole demonstration with real processes, in a pipe and on a terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from demo.scenario import STEPS, Harness, ScenarioError, is_running

from chaos.leftovers import is_running as is_alive
from demonstration.test_recording import Animation
from scripted.places import PYTHONPATH

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH, "TERM": "xterm"}


def test_all_outcomes_agree_with_the_ledger(tmp_path: Path) -> None:
    """docs/guarantees.md G1, G5 and G7."""
    record = tmp_path / "demo.svg"
    done = subprocess.run(
        [*COMMAND, "--fast", "--record", str(record)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    for number, step in enumerate(STEPS, 1):
        assert f"{number}/{len(STEPS)} {step.head}" in done.stdout
    for seen in (
        "SIGKILL to",
        "SIGSTOP to",
        "exited [signal 9]",
        "no response to 2 keepalives",
        "[exit code 2]",
        "retry 3",
    ):
        assert seen in done.stdout
    assert "All outcomes agree with the ledger. hung 0, processes left 0." in done.stdout
    counts = dict(zip("•»×?", map(int, re.findall(r"[•»×?] (\d+)", done.stdout)[-4:]), strict=True))
    assert all(counts.values()), counts
    assert "Alloutcomesagree" in "".join(
        cell.letter for _, cell in sorted(Animation(record.read_text("utf-8")).grid_at(None).items())
    )


class OnTerminal:
    """The demonstration on a pseudo-terminal."""

    def __init__(self) -> None:
        self.output = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(COMMAND[0], COMMAND, ENVIRONMENT)
        self.resize(80, 24)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> bool:
        """Read what is available. False: it has ended."""
        assert select.select([self.terminal], [], [], 30.0)[0], "no output"
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.output += data
        return bool(data)

    def until(self, pattern: bytes) -> None:
        while not re.search(pattern, self.output):
            assert self.read(), self.output

    def children(self) -> list[int]:
        listed = [task / "children" for task in Path(f"/proc/{self.pid}/task").iterdir()]
        return [int(pid) for path in listed for pid in path.read_text().split()]


def test_sigint_restores_the_terminal_and_leaves_no_process() -> None:
    """docs/guarantees.md G13."""
    demo = OnTerminal()
    demo.until(rb"calls? open")
    servers = demo.children()
    assert servers
    demo.output = b""
    demo.resize(60, 18)
    demo.until(rb"\x1b\[2J")
    demo.output = b""
    os.write(demo.terminal, b"\x03\x03")
    while demo.read():
        pass
    _, status = os.waitpid(demo.pid, 0)
    os.close(demo.terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert demo.output.endswith(b"\x1b[?25h\x1b[?1049lInterrupted.\r\n")
    assert not any(map(is_alive, servers))


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--record", str(tmp_path / "nowhere" / "demo.svg")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2
    assert "cannot write to" in done.stderr


async def test_a_missing_event_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.scenario.TIMEOUT", 0.01)

    with pytest.raises(ScenarioError, match=r"an event: not within 0\.01 s"):
        await Harness(tmp_path).wait_for(lambda: False, "an event")


def test_a_process_is_running_until_it_is_reaped() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    assert is_running(child.pid)
    child.communicate()
    assert not is_running(child.pid)
