"""What a child is started with: which variables it sees, and which file is run for a command.

A server is somebody else's program. It gets what a program needs to find its home, its language and its terminal, and
what the user names; not our tokens and passwords (docs/design/connection.md, section 8; the allow-list is the specification's idea of
"only what is needed"). The file is looked up by us and not by `exec`, so that a mistake is told with the PATH searched.

Must never know how the child is started or talked to. Above: `_stdio`. Below: the file system.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from jackstay.errors import TransportError, UsageError

# docs/design/connection.md, section 8; and everything that begins with LC_.
PASSED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR")


def check_environment(env: Mapping[str, str] | None, inherit_env: bool | Iterable[str]) -> None:
    """Refuse what no operating system takes.

    Raises: UsageError.
    """
    is_list = isinstance(inherit_env, Iterable) and not isinstance(inherit_env, str)
    if not isinstance(inherit_env, bool) and not (is_list and _are_text(inherit_env)):
        raise UsageError("inherit_env must be True, False or a list of names", path="inherit_env")
    if env is not None and not isinstance(env, Mapping):
        raise UsageError(f"env must map text to text, not be {type(env).__name__}", path="env")
    for name, value in (env or {}).items():
        if not _are_text((name, value)):
            raise UsageError(f"env must map text to text; {name!r} does not", path="env")
        # The value may be a secret: it is not quoted.
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(f"env has a variable {name!r} that no program can be given", path="env")


def child_environment(
    ours: Mapping[str, str], env: Mapping[str, str] | None, inherit_env: bool | Iterable[str]
) -> dict[str, str]:
    """The variables of a child: what is always passed, what is asked for, and `env` on top."""
    if inherit_env is True:
        chosen = dict(ours)
    else:
        names = {*PASSED, *(() if inherit_env is False else inherit_env)}
        chosen = {name: value for name, value in ours.items() if name in names or name.startswith("LC_")}
    return {**chosen, **(env or {})}


def find_executable(command: str, environment: Mapping[str, str], cwd: str | None) -> str:
    """The absolute path of the file to run.

    Raises: TransportError, permanent, naming what was searched.
    """
    here = os.path.abspath(cwd or ".")
    if cwd is not None and not os.path.isdir(here):
        raise _refusal(command, f"the working directory {here} does not exist", cwd=here)
    if os.sep in command:
        candidates, searched = [os.path.join(here, command)], ""
    else:
        searched = environment.get("PATH", os.defpath)
        # An empty entry means the working directory, to `exec` of old; nothing is searched for there.
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
        why = "there is no such file; give a command and each of its arguments on their own"
    elif searched:
        why = f"it is not on the PATH searched, {searched}"
    else:
        why = f"there is no file {candidates[0] if candidates else command}"
    raise _refusal(command, why, path=searched)


def _are_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _refusal(command: str, why: str, *, path: str = "", cwd: str = "") -> TransportError:
    details = {"command": command, "path": path, "cwd": cwd}
    return TransportError(
        f"cannot start {command!r}: {why}",
        permanent=True,
        details={name: value for name, value in details.items() if value},
    )
