"""The environment variables of a child process, and the file that is run for a command.

A server is foreign code: it gets the variables that every program needs and those that the user names, but no other
secrets. The executable is looked up here and not by `exec`, so that an error can name the PATH that was searched.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from jackstay.errors import TransportError, UsageError

# Always passed, with everything that begins with LC_.
PASSED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR")


def check_environment(env: Mapping[str, str] | None, inherit_env: bool | Iterable[str]) -> None:
    """Check the arguments `env` and `inherit_env`.

    Raises: UsageError.
    """
    is_list = isinstance(inherit_env, Iterable) and not isinstance(inherit_env, str)
    if not isinstance(inherit_env, bool) and not (is_list and _are_strings(inherit_env)):
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
