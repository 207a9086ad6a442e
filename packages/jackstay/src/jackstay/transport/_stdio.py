"""Servers that run as a child process: `stdio("uvx", "mcp-server-git")` returns a target that starts one.

Nothing is started or searched for before `open()`. No shell is involved.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from copy import copy
from typing import ClassVar, Final

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import Transport, TransportHandler
from jackstay.transport._environment import check_environment, child_environment, find_executable
from jackstay.transport._process import Command, spawn
from jackstay.transport._stderr_tail import StderrTail, StderrTo, check_stderr

# Commands whose first run downloads a package: the usual ten seconds are not enough for them.
SLOW_STARTERS: Final = frozenset({"npx", "uvx", "bunx", "pipx"})
SLOW_INIT_TIMEOUT: Final = 30.0


class StdioTarget(msgspec.Struct, eq=False, kw_only=True):
    """A command that serves MCP on its stdin and stdout. Returned by `stdio()`; each `open()` starts a process."""

    command: str
    arguments: tuple[str, ...]
    name: str
    init_timeout: float | None
    env: dict[str, str]
    inherit_env: bool | Iterable[str]
    cwd: str | None
    stderr: StderrTo
    framing: str
    _executable: str | None = None  # looked up at the first start
    is_http: ClassVar[bool] = False

    def __repr__(self) -> str:
        # Neither values of `env` nor arguments are shown: both may contain secrets.
        return f"<{self.__class__.__name__} {self.name}: {self.command} with {len(self.arguments)} arguments>"

    def with_stderr(self, stderr: StderrTo) -> "StdioTarget":
        """Return a copy with another `stderr`, as in `stdio()`. Raises: UsageError."""
        check_stderr(stderr)
        clone = copy(self)
        clone.stderr = stderr
        return clone

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> Transport:
        """Start the command. If this is cancelled, no process is left behind.

        Raises: TransportError, `permanent` if a retry cannot help.
        """
        environment = child_environment(os.environ, self.env, self.inherit_env)
        # With `cwd`, check again: the directory may have been removed since the last start.
        if self._executable is None or self.cwd is not None:
            self._executable = find_executable(self.command, environment, self.cwd)
        inherits_stderr = self.stderr == "inherit"
        command = Command(self._executable, self.arguments, environment, self.cwd, inherits_stderr)
        try:
            stderr_tail = StderrTail(self.stderr, self.name)
        except OSError as error:
            raise TransportError(f"cannot write the stderr of {self.name!r}: {error}", permanent=True) from error
        try:
            child = await spawn(command)
        except (TransportError, asyncio.CancelledError):
            stderr_tail.close()
            raise
        from jackstay.transport._child import ChildTransport  # noqa: PLC0415  # loaded on first use

        return ChildTransport(
            child, handler, stderr_tail, self.name, self.framing, max_frame_bytes=max_frame_bytes, close_step=close_step
        )


def stdio(
    command: str | os.PathLike[str],
    *args: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    inherit_env: bool | Iterable[str] = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: StderrTo = "log",
    framing: str = "lines",
    name: str = "",
) -> StdioTarget:
    """Return a target that runs `command` with `args`, without a shell, and connects to its stdin and stdout.

    The command gets the variables HOME, LOGNAME, PATH, SHELL, TERM, USER, LANG, LC_*, TZ and TMPDIR, those that
    `inherit_env` names (True: all of this process), and `env` on top. Its stderr goes to the logger
    `jackstay.server.NAME` ("log"), to this process's stderr ("inherit"), to a path or a file, or line by line to a
    function. Files and functions are called on the loop's thread and must not block.

    Raises: UsageError.
    """
    if os.name == "nt":
        raise UsageError("stdio() is not supported on Windows; run this program inside WSL", path="stdio")
    if isinstance(command, list | tuple):
        call = ", ".join(repr(argument) for argument in (*command, *args))
        raise UsageError(
            f"command must be a str, not {type(command).__name__}; pass each argument separately: stdio({call})",
            path="command",
        )
    argv = [_checked_str(argument, "command and its arguments", "command") for argument in (command, *args)]
    if not argv[0]:
        raise UsageError("command must not be empty", path="command")
    if framing not in FRAMINGS:
        raise UsageError(f"framing must be one of {', '.join(FRAMINGS)}, not {framing!r}", path="framing")
    if isinstance(inherit_env, Iterable) and not isinstance(inherit_env, str):
        inherit_env = tuple(inherit_env)  # it may be an iterator
    check_environment(env, inherit_env)
    check_stderr(stderr)
    return StdioTarget(
        command=argv[0],
        arguments=tuple(argv[1:]),
        name=name or _name_of(argv[0], tuple(argv[1:])),
        init_timeout=SLOW_INIT_TIMEOUT if os.path.basename(argv[0]) in SLOW_STARTERS else None,
        env=dict(env or {}),
        inherit_env=inherit_env,
        cwd=None if cwd is None else _checked_str(cwd, "cwd", "cwd"),
        stderr=stderr,
        framing=framing,
    )


def _checked_str(value: object, what: str, path: str) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text:
        raise UsageError(f"{what} must be str without NUL, not {value!r}", path=path)
    return text


def _name_of(command: str, arguments: tuple[str, ...]) -> str:
    """Return the server's name: the command, or what it runs (`uvx mcp-server-git`, `env A=1 python server.py`)."""
    name = os.path.basename(command) or command
    if name == "env":
        rest = [argument for argument in arguments if not argument.startswith("-") and "=" not in argument]
        if rest:
            return _name_of(rest[0], arguments[arguments.index(rest[0]) + 1 :])
    if name.rstrip("0123456789.") in ("python", "pypy", "pythonw"):
        return _script_of(arguments) or name
    if name in SLOW_STARTERS:
        packages = [argument for argument in arguments if not argument.startswith("-")]
        name = packages[0] if packages else name
    return name


def _script_of(arguments: tuple[str, ...]) -> str:
    """Return the script or module that Python runs, without directory and suffix; empty if there is none."""
    options = iter(arguments)
    for argument in options:
        if argument == "-m":
            return next(options, "")
        if argument in ("-W", "-X"):
            next(options, "")
        elif argument == "-c":
            return ""
        elif not argument.startswith("-"):
            return os.path.splitext(os.path.basename(argument))[0]
    return ""
