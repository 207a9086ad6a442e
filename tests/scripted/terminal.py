"""Terminals: an interactive shell at a pseudo-terminal, and a stream that is one."""

import io
import os
import pty
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROMPT = "ready> "

BASH = shutil.which("bash") or "/bin/bash"

# Fills COMP_WORDS as bash does for a line whose last word is being typed, and prints the completions.
DRIVER = """\
PATH=$PWD:$PATH
source ./completion.bash
while read -r line; do
    eval "COMP_WORDS=($line)"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    FUNCTION 2> /dev/null
    ((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
    echo .
done
"""


class StatusTerminal(io.StringIO):
    """A terminal that counts what is written, for tests that wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.is_written:
            self.is_written.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self.is_written:
            assert self.is_written.wait_for(lambda: text in self.getvalue(), 240)


class Terminal:
    """A pseudo-terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._shown = ""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str) -> None:
        """Read output up to this text; the rest is kept for the next call."""
        deadline = time.monotonic() + 120
        while text not in self._shown:
            timeout = max(0.0, deadline - time.monotonic())
            assert select.select([self._master], [], [], timeout)[0], self._shown
            self._shown += os.read(self._master, 4096).decode()
        self._shown = self._shown.partition(text)[2]


@contextmanager
def shell(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """An interactive shell in that directory, at its first prompt."""
    pid, master = pty.fork()
    if pid == 0:  # pragma: no cover  # another process
        os.chdir(folder)
        os.execve(command[0], command, {**os.environ, "PS1": PROMPT, "TERM": "dumb", **environment})
    try:
        terminal = Terminal(master)
        terminal.until(PROMPT)
        yield terminal
    finally:
        os.close(master)
        os.waitpid(pid, 0)


def answers_in(text: str) -> list[list[str]]:
    """The lists in the output of a shell: one word per line, each list ended by a line with a dot."""
    answers: list[list[str]] = [[]]
    for line in text.splitlines():
        if line == ".":
            answers.append([])
        else:
            answers[-1].append(line)
    return answers[:-1]


def bash_answers(script: str, program: str, lines: Iterable[str], folder: Path) -> list[list[str]]:
    """The completions of bash for each of these lines, in that directory."""
    (folder / "completion.bash").write_text(script)
    driver = DRIVER.replace("FUNCTION", "_" + program.replace("-", "_"))
    done = subprocess.run(
        [BASH, "--norc", "-c", driver],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        cwd=folder,
    )
    assert done.stderr == ""
    return answers_in(done.stdout)
