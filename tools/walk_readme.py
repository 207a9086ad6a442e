"""Follow the README as a new user: a fresh clone, an empty home directory, every block in order.

    python tools/walk_readme.py [--with-tests]

Titled Python blocks are written to files; every line of a shell block must succeed. `make test` is skipped by default.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')

START_SECONDS = 300.0  # `make run` installs first
STOP_SECONDS = 15.0
COMMAND_SECONDS = 300.0

# Environment variables that are kept: those for access to the registries, and basic ones.
KEPT = re.compile(
    r"^(PATH|LANG|LC_.*|TMPDIR|TERM|PIP_.*|.*_proxy|.*_PROXY|SSL_CERT_.*|REQUESTS_CA_BUNDLE|npm_config_.*)$"
)


class Block(NamedTuple):
    """One fenced block: its language, its title if it has one, its text."""

    language: str
    title: str
    body: str


class WalkFailedError(Exception):
    """A step failed; the message names it."""


def blocks(text: str) -> Iterator[Block]:
    """Return the fenced blocks of a page, in order."""
    for found in FENCE.finditer(text):
        words, title = found[1].split(), TITLE.search(found[1])
        yield Block(words[0] if words else "", title[1] if title else "", found[2])


def lines(body: str) -> list[str]:
    """Return the commands of a shell block, without comments."""
    return [line.split("  #")[0].strip() for line in body.splitlines() if line.strip() and not line.startswith("#")]


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Run one line in a shell. Raises: WalkFailedError."""
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            cwd=folder,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise WalkFailedError(f"`{command}` timed out after {COMMAND_SECONDS:g} s") from error
    output = done.stdout + done.stderr
    if done.returncode or not done.stdout.strip() or "Traceback" in output:
        raise WalkFailedError(f"`{command}` ended with {done.returncode} and printed:\n{output}")
    return done.stdout


def serve(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Run `make run`: it must serve the page, and end on Ctrl-C without a traceback. Raises: WalkFailedError."""
    page = f"http://127.0.0.1:{environment['PORT']}/inspector"
    with tempfile.TemporaryFile("w+") as log:
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,  # so that SIGINT goes to the group of the command, and not to this process
        )
        try:
            wait_for(page, started)
        finally:
            os.killpg(started.pid, signal.SIGINT)
            try:
                started.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
        log.seek(0)
        output = log.read()
    # The program exits with 0; make itself is killed by the signal, unless it ignores it.
    if started.returncode not in (0, 130, -signal.SIGINT) or "Traceback" in output or page not in output:
        raise WalkFailedError(f"`{command}` ended with {started.returncode} and printed:\n{output}")


def wait_for(page: str, started: subprocess.Popen[bytes]) -> None:
    """Wait until the page is served. Raises: WalkFailedError."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                if b"<html" in answer.read():
                    return
        except (urllib.error.URLError, OSError):
            pass
        if started.poll() is not None or time.monotonic() > end:
            raise WalkFailedError(f"{page} was never served")
        time.sleep(0.2)


def try_settings(body: str, folder: Path, environment: dict[str, str]) -> None:
    """Start every server of a block of client settings, and list its tools. Raises: WalkFailedError."""
    (folder / "mcp.json").write_text(body, encoding="utf-8")
    for name in json.loads(body)["mcpServers"]:
        run(f"jackstay tools --config mcp.json {name}", folder, environment)


def walk(text: str, folder: Path, environment: dict[str, str], *, skipped: tuple[str, ...] = ()) -> list[str]:
    """Follow the page in `folder`, and return the steps. Lines that start with one of `skipped` are skipped."""
    done = []
    for block in blocks(text):
        if block.title:
            (folder / block.title).write_text(block.body, encoding="utf-8")
            done.append(f"wrote {block.title}")
        elif block.language == "json" and "mcpServers" in block.body:
            try_settings(block.body, folder, environment)
            done.append("tried the client's settings")
        elif block.language == "sh":
            for line in lines(block.body):
                if line.startswith(skipped):
                    continue
                (serve if line == "make run" else run)(line, folder, environment)
                done.append(line)
                print(f"  {line}", flush=True)
    return done


def main() -> int:
    """Clone the repository and follow the README. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Follow the README in a new clone with an empty home directory.")
    parser.add_argument("--with-tests", action="store_true", help="run `make test`, too")
    wanted = parser.parse_args()
    skipped = () if wanted.with_tests else ("make test",)
    with tempfile.TemporaryDirectory(prefix="jackstay-walk-") as place:
        clone, home = Path(place) / "jackstay", Path(place) / "home"
        home.mkdir()
        clone_into(clone)
        environment = {name: value for name, value in os.environ.items() if KEPT.match(name)}
        environment |= {"HOME": str(home), "PORT": str(free_port())}
        # Like `. .venv/bin/activate`. `make run` creates the directory.
        environment["PATH"] = f"{clone / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
        began = time.monotonic()
        try:
            done = walk((ROOT / "README.md").read_text(encoding="utf-8"), clone, environment, skipped=skipped)
        except WalkFailedError as failure:
            print(f"The README failed: {failure}", file=sys.stderr)
            return 1
    print(f"The README works: {len(done)} steps in {time.monotonic() - began:.0f} s.")
    return 0


def clone_into(folder: Path) -> None:
    """Clone the repository, or copy its files if it is not a clone."""
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        done = subprocess.run([git, "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=False)
        if done.returncode == 0:
            return
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "node_modules", "__pycache__")
    shutil.copytree(ROOT, folder, ignore=unwanted)


def free_port() -> int:
    """Return a free port for `make run`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
