"""A server as a command: `stdio("uvx", "mcp-server-git")` says how to start it, again and again.

Nothing is started, searched or read before `open()`; mistakes that can be seen without that are refused at once. There is
never a shell. Which variables the child sees: `_environment`. What is done with its stderr: `_last_words`.

Must never know what is said to the server, nor when it is started again. Above: the client. Below: `_spawn`, `_child`.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from jackstay.errors import TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import Owner, Transport
from jackstay.transport._environment import check_environment, child_environment, find_executable
from jackstay.transport._last_words import LastWords, StderrTo, check_stderr
from jackstay.transport._spawn import Command, spawn

# Commands whose first run downloads what they start: the ten seconds of any other are not enough for them.
SLOW_STARTERS: Final = frozenset({"npx", "uvx", "bunx", "pipx"})
SLOW_INIT_TIMEOUT: Final = 30.0


class StdioTarget:
    """A command that speaks MCP on its stdin and stdout. Made by `stdio()`; each `open()` starts it anew."""

    is_http = False

    def __init__(
        self,
        command: str,
        arguments: tuple[str, ...],
        *,
        name: str,
        env: Mapping[str, str] | None,
        inherit_env: bool | Iterable[str],
        cwd: str | None,
        stderr: StderrTo,
        framing: str,
    ) -> None:
        self.command = command
        self.arguments = arguments
        self.name = name or _name_of(command, arguments)
        self.init_timeout = SLOW_INIT_TIMEOUT if os.path.basename(command) in SLOW_STARTERS else None
        self._env = dict(env or {})
        self._inherit_env = inherit_env if isinstance(inherit_env, bool) else tuple(inherit_env)
        self._cwd = cwd
        self._stderr = stderr
        self._framing = framing
        self._executable: str | None = None  # looked up once, at the first start

    def __repr__(self) -> str:
        # Values of `env` are never shown, and arguments may hold tokens, too.
        return f"<{self.__class__.__name__} {self.name}: {self.command} with {len(self.arguments)} arguments>"

    def with_stderr(self, stderr: StderrTo) -> "StdioTarget":
        """The same command with its stderr going there, as `stdio()` takes it. Raises: UsageError."""
        check_stderr(stderr)
        twin = copy(self)
        twin._stderr = stderr
        return twin

    async def open(self, owner: Owner, max_frame_bytes: int, close_step: float) -> Transport:
        """Start the command. It is ready to be written to as soon as it runs.

        Raises: TransportError, `permanent` where trying again cannot help. Cancelled, it leaves nothing behind.
        """
        environment = child_environment(os.environ, self._env, self._inherit_env)
        if (
            self._executable is None or self._cwd is not None
        ):  # a directory may have gone since the last start
            self._executable = find_executable(self.command, environment, self._cwd)
        command = Command(
            self._executable,
            self.arguments,
            environment,
            self._cwd,
            inherits_stderr=self._stderr == "inherit",
        )
        try:
            words = LastWords(self._stderr, self.name)
        except OSError as error:
            raise TransportError(f"cannot write stderr of {self.name}: {error}", permanent=True) from error
        try:
            child = await spawn(command)
        except (TransportError, asyncio.CancelledError):
            words.close()
            raise
        from jackstay.transport._child import ChildTransport  # noqa: PLC0415  # what moves bytes is loaded when they move

        return ChildTransport(
            child,
            owner,
            words,
            name=self.name,
            framing=self._framing,
            max_frame_bytes=max_frame_bytes,
            close_step=close_step,
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
    """A target that starts `command` with `args`, without a shell, and speaks to it over its stdin and stdout.

    The command gets HOME, LOGNAME, PATH, SHELL, TERM, USER, LANG, LC_*, TZ and TMPDIR, what `inherit_env` names (True: all we
    have), and `env` on top. Its stderr goes to the logger `jackstay.server.NAME` ("log"), to our own ("inherit"), to a path or
    a file, or line by line to a function; files and functions are called on the loop's thread and must not wait.

    Raises: UsageError.
    """
    if os.name == "nt":
        raise UsageError(
            "servers over stdio need a POSIX system: on Windows, run this program inside WSL", path="stdio"
        )
    if isinstance(command, list | tuple):
        wanted = ", ".join(repr(word) for word in (*command, *args))
        raise UsageError(
            f"the command and its arguments are passed one by one: stdio({wanted})", path="command"
        )
    words = [_text_of(word) for word in (command, *args)]
    if not words[0]:
        raise UsageError("there is no command", path="command")
    if framing not in FRAMINGS:
        raise UsageError(f"framing must be one of {', '.join(FRAMINGS)}, not {framing!r}", path="framing")
    if isinstance(inherit_env, Iterable) and not isinstance(inherit_env, str):
        inherit_env = tuple(inherit_env)  # it may be one that can be read once
    check_environment(env, inherit_env)
    check_stderr(stderr)
    return StdioTarget(
        words[0],
        tuple(words[1:]),
        name=name,
        env=env,
        inherit_env=inherit_env,
        cwd=None if cwd is None else _text_of(cwd, "the working directory is", "cwd"),
        stderr=stderr,
        framing=framing,
    )


def _text_of(word: object, what: str = "a command and its arguments are", path: str = "command") -> str:
    text = os.fspath(word) if isinstance(word, os.PathLike) else word
    if not isinstance(text, str) or "\0" in text:
        raise UsageError(f"{what} text without NUL, not {word!r}", path=path)
    return text


def _name_of(command: str, arguments: tuple[str, ...]) -> str:
    """What the server is called: the command, or what it runs (`uvx mcp-server-git`, `env A=1 python server.py`)."""
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
    """The script or module that Python is to run, without directory and suffix; empty where there is none."""
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
