"""The whole demonstration, with real processes: in a pipe, to its end; on a terminal, until Ctrl-C."""

import asyncio
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
from demo.story import SCENES, Stage, StoryError, is_running

from chaos.leftovers import is_running as is_alive
from demonstration.test_film import Film
from scripted.places import PYTHONPATH

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH, "TERM": "xterm"}


def test_the_story_ends_with_books_that_agree(tmp_path: Path) -> None:
    """G1, G5, G7: killed, stopped and broken, and every caller was told the truth."""
    record = tmp_path / "demo.svg"
    done = subprocess.run(
        [*COMMAND, "--fast", "--record", str(record)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    for number, scene in enumerate(SCENES, 1):
        assert f"{number}/{len(SCENES)} {scene.head}" in done.stdout
    for seen in (
        "SIGKILL to",
        "SIGSTOP to",
        "exited [signal 9]",
        "no sign of life",
        "[exit code 2]",
        "retry 3",
    ):
        assert seen in done.stdout
    assert "Everybody was told the truth. hung 0, processes left 0." in done.stdout
    counts = dict(zip("•»×?", map(int, re.findall(r"[•»×?] (\d+)", done.stdout)[-4:]), strict=True))
    assert all(counts.values()), counts
    assert "Everybody" in "".join(
        cell.letter for _, cell in sorted(Film(record.read_text("utf-8")).shown(None).items())
    )


class OnTerminal:
    """The demonstration on a terminal of its own."""

    def __init__(self) -> None:
        self.said = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(COMMAND[0], COMMAND, ENVIRONMENT)
        self.resize(80, 24)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> bool:
        """Take what is there. False: it has ended."""
        assert select.select([self.terminal], [], [], 30.0)[0], "it says nothing"
        try:
            taken = os.read(self.terminal, 65536)
        except OSError:  # Linux: nobody has the other end any more
            return False
        self.said += taken
        return bool(taken)

    def until(self, pattern: bytes) -> None:
        while not re.search(pattern, self.said):
            assert self.read(), self.said

    def children(self) -> list[int]:
        listed = [task / "children" for task in Path(f"/proc/{self.pid}/task").iterdir()]
        return [int(pid) for path in listed for pid in path.read_text().split()]


def test_ctrl_c_gives_the_terminal_back_and_leaves_no_process() -> None:
    """G13."""
    shown = OnTerminal()
    shown.until(rb"calls? open")
    servers = shown.children()
    assert servers
    shown.said = b""
    shown.resize(60, 18)
    shown.until(rb"\x1b\[2J")
    shown.said = b""
    os.write(shown.terminal, b"\x03\x03")
    while shown.read():
        pass
    _, status = os.waitpid(shown.pid, 0)
    os.close(shown.terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert shown.said.endswith(b"\x1b[?25h\x1b[?1049lEnded before its end.\r\n")
    assert not any(map(is_alive, servers))


def test_a_folder_that_is_not_there_is_refused_before_the_story(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--record", str(tmp_path / "nowhere" / "demo.svg")],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2
    assert "nothing can be written to" in done.stderr


def test_what_is_never_seen_ends_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.story.PATIENCE", 0.01)

    async def wait() -> None:
        await Stage(tmp_path).until(lambda: False, "the sky falls")

    with pytest.raises(StoryError, match=r"the sky falls: not within 0\.01 s"):
        asyncio.run(wait())


def test_a_process_is_running_until_it_is_reaped() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    assert is_running(child.pid)
    child.communicate()
    assert not is_running(child.pid)
