"""The servers of `peers.py` as rows: the command, the negotiated revision, and one call with its expected result."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.peers import BY_NAME, node
from jackstay.transport import StdioTarget, stdio

SCRIPTS = Path(__file__).parent / "servers"
FILE_TEXT = "high water at noon\n"


@dataclass(frozen=True)
class Known:
    """One server. `prepare` creates the files that it needs in a directory and returns its arguments."""

    name: str
    command: Callable[[], tuple[Path, ...]]
    prepare: Callable[[Path], tuple[str, ...]]
    server_name: str
    revision: str  # negotiated by a client that supports all revisions
    tool: str
    arguments: Callable[[Path], dict[str, Any]]
    answer: str  # a part of the text of the result

    def target(self, directory: Path) -> StdioTarget:
        """Return the target that starts the server, with its files in this directory."""
        return stdio(*self.command(), *self.prepare(directory), name=self.name)


def _program(name: str) -> Callable[[], tuple[Path, ...]]:
    return lambda: (BY_NAME[name].home / BY_NAME[name].program,)


def _node_program(name: str) -> Callable[[], tuple[Path, ...]]:
    return lambda: (node(), BY_NAME[name].home / BY_NAME[name].program)


def _script(name: str, script: str) -> Callable[[], tuple[Path, ...]]:
    return lambda: (BY_NAME[name].python, SCRIPTS / script)


def make_repository(directory: Path) -> Path:
    """Create a repository with one commit, independent of the git configuration of the user."""
    path = directory / "repository"
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.invalid", "-c", "commit.gpgsign=false")
    if not path.exists():
        subprocess.run([*git, "init", "--quiet", "--initial-branch=main", path], check=True)
        (path / "log.txt").write_text(FILE_TEXT, encoding="utf-8")
        subprocess.run([*git, "-C", path, "add", "log.txt"], check=True)
        subprocess.run([*git, "-C", path, "commit", "--quiet", "--message=First entry"], check=True)
    return path


def _repository(directory: Path) -> tuple[str, ...]:
    return ("--repository", str(make_repository(directory)))


def _files(directory: Path) -> tuple[str, ...]:
    (directory / "log.txt").write_text(FILE_TEXT, encoding="utf-8")
    return (str(directory),)


def _nothing(directory: Path) -> tuple[str, ...]:
    return ()


def _sum(directory: Path) -> dict[str, Any]:
    return {"a": 19, "b": 23}


KNOWN = (
    Known("git", _program("git"), _repository, "mcp-git", "2026-07-28",
          "git_log", lambda directory: {"repo_path": str(directory / "repository")}, "First entry"),
    Known("time", _program("time"), lambda directory: ("--local-timezone", "UTC"), "mcp-time", "2026-07-28",
          # Zones without daylight saving time: the result is the same all year.
          "convert_time",
          lambda directory: {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
    # Nothing is sent: the server itself rejects addresses that are not public.
    Known("fetch", _program("fetch"), _nothing, "mcp-fetch", "2026-07-28",
          "fetch", lambda directory: {"url": "http://127.0.0.1:9/"}, "Refused to fetch"),
    Known("filesystem", _node_program("filesystem"), _files, "secure-filesystem-server", "2025-11-25",
          "read_text_file", lambda directory: {"path": str(directory / "log.txt")}, FILE_TEXT),
    Known("everything", _node_program("everything"), lambda directory: ("stdio",), "mcp-servers/everything",
          "2025-11-25", "get-sum", _sum, "42"),
    Known("sdk1", _script("sdk1", "sdk1.py"), _nothing, "harbour-sdk1", "2025-11-25", "add", _sum, "42"),
    Known("sdk2", _script("sdk2", "sdk2.py"), _nothing, "harbour-sdk2", "2026-07-28", "add", _sum, "42"),
    Known("fastmcp3", _script("fastmcp3", "fast.py"), _nothing, "harbour-fastmcp", "2025-11-25", "add", _sum, "42"),
    Known("fastmcp4", _script("fastmcp4", "fast.py"), _nothing, "harbour-fastmcp", "2026-07-28", "add", _sum, "42"),
)  # fmt: skip

BY_SERVER = {known.name: known for known in KNOWN}

# --- commands over HTTP, for a port. The reference server `everything` represents the TypeScript SDK 1.x

Command = Callable[[int], tuple[str | Path, ...]]


def _listening_script(name: str, script: str) -> Command:
    return lambda port: (BY_NAME[name].python, SCRIPTS / script, str(port))


def _everything(port: int, transport: str) -> tuple[str | Path, ...]:
    return "env", f"PORT={port}", *_node_program("everything")(), transport


HTTP_COMMANDS: dict[str, Command] = {
    "sdk1": _listening_script("sdk1", "sdk1.py"),
    "sdk2": _listening_script("sdk2", "sdk2.py"),
    "fastmcp3": _listening_script("fastmcp3", "fast.py"),
    "fastmcp4": _listening_script("fastmcp4", "fast.py"),
    "typescript2": lambda port: (
        node(), SCRIPTS / "typescript2.mjs", BY_NAME["typescript2"].home, str(port),
    ),
    "everything": lambda port: _everything(port, "streamableHttp"),
}  # fmt: skip


def sse_command(port: int) -> tuple[str | Path, ...]:
    """Return the command of a server for HTTP+SSE, the transport of 2024-11-05, at /sse."""
    return _everything(port, "sse")
