"""Servers that run as a child process: `stdio("uvx", "mcp-server-git")` returns a target that starts one.

Nothing is started or searched for before `open()`. No shell is involved.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from jackstay.errors import TransportError, UsageError
from jackstay.protocol.wire import FRAMINGS
from jackstay.transport._contract import Transport, TransportHandler
from jackstay.transport._process import Command, spawn
from jackstay.transport._stderr_tail import StderrTail, StderrTo, check_stderr

# Always passed, with everything that begins with LC_.
PASSED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR")

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

    is_http = False

    def __repr__(self) -> str:
        # Neither values of `env` nor arguments are shown: both may contain secrets.
        return f"<{self.__class__.__name__} {self.name}: {self.command} with {len(self.arguments)} arguments>"

    def with_stderr(self, stderr: StderrTo) -> "StdioTarget":
        """Return a copy with another `stderr`, as in `stdio()`. Raises: UsageError."""
        check_stderr(stderr)
        return msgspec.structs.replace(self, stderr=stderr)

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
    program, *arguments = (_checked_str(value, "command and its arguments", "command") for value in (command, *args))
    if not program:
        raise UsageError("command must not be empty", path="command")
    if framing not in FRAMINGS:
        raise UsageError(f"framing must be one of {', '.join(FRAMINGS)}, not {framing!r}", path="framing")
    inherit_env = check_environment(env, inherit_env)
    check_stderr(stderr)
    return StdioTarget(
        command=program,
        arguments=tuple(arguments),
        name=name or _name_of(program, arguments),
        init_timeout=SLOW_INIT_TIMEOUT if os.path.basename(program) in SLOW_STARTERS else None,
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


def _name_of(command: str, arguments: list[str]) -> str:
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


def _script_of(arguments: list[str]) -> str:
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


# ---- the environment and the executable ----
# A server is foreign code: it gets the variables that every program needs and those that the user names, but no other
# secrets. The executable is looked up here and not by `exec`, so that an error can name the PATH that was searched.


def check_environment(env: Mapping[str, str] | None, inherit_env: bool | Iterable[str]) -> bool | tuple[str, ...]:
    """Check the arguments `env` and `inherit_env`, and return the latter: a tuple in place of an iterable.

    Raises: UsageError.
    """
    if isinstance(inherit_env, Iterable) and not isinstance(inherit_env, str):
        inherit_env = tuple(inherit_env)  # it may be an iterator
    if not isinstance(inherit_env, bool) and not (isinstance(inherit_env, tuple) and _are_strings(inherit_env)):
        raise UsageError(f"inherit_env must be a bool or a list[str], not {inherit_env!r}", path="inherit_env")
    if env is not None and not isinstance(env, Mapping):
        raise UsageError(f"env must be a dict[str, str], not {type(env).__name__}", path="env")
    for name, value in (env or {}).items():
        # The value may be a secret: it is not quoted.
        if not _are_strings((name, value)):
            raise UsageError(f"env must be a dict[str, str]: the name or value of {name!r} is not a str", path="env")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(
                f"env has an invalid variable {name!r}: names must be non-empty and without '=', and neither names nor "
                "values may contain NUL",
                path="env",
            )
    return inherit_env


def child_environment(
    environ: Mapping[str, str], env: Mapping[str, str] | None, inherit_env: bool | Iterable[str]
) -> dict[str, str]:
    """Return the variables of a child: those always passed, those in `inherit_env`, and `env` on top."""
    if inherit_env is True:
        chosen = dict(environ)
    else:
        names = {*PASSED, *(() if inherit_env is False else inherit_env)}
        chosen = {name: value for name, value in environ.items() if name in names or name.startswith("LC_")}
    return {**chosen, **(env or {})}


def find_executable(command: str, environment: Mapping[str, str], cwd: str | None) -> str:
    """Return the absolute path of the file to run.

    Raises: TransportError, permanent, with the PATH that was searched.
    """
    here = os.path.abspath(cwd or ".")
    if cwd is not None and not os.path.isdir(here):
        raise _refusal(command, f"the working directory {here} does not exist", cwd=here)
    if os.sep in command:
        candidates, searched = [os.path.join(here, command)], ""
    else:
        searched = environment.get("PATH", os.defpath)
        # To `exec`, an empty entry means the working directory; it is not searched here.
        candidates = [os.path.join(folder, command) for folder in searched.split(os.pathsep) if folder]
    refused = ""
    for candidate in candidates:
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return os.path.abspath(candidate)
            refused = refused or candidate
    if refused:
        raise _refusal(command, f"{refused} is not executable", path=searched)
    if " " in command.strip():
        why = "no such file; pass the command and its arguments as separate strings"
    elif searched:
        why = f"not found on PATH {searched}"
    else:
        why = f"no such file: {candidates[0] if candidates else command}"
    raise _refusal(command, why, path=searched)


def _are_strings(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _refusal(command: str, why: str, **details: str) -> TransportError:
    known = {name: value for name, value in {"command": command, **details}.items() if value}
    return TransportError(f"cannot start {command!r}: {why}", permanent=True, details={**known})
