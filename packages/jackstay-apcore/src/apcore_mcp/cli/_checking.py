"""What was said on the command line, looked at before anything is loaded: what cannot be used is told by the name it was typed by.

Must never know apcore. Above: `_main`. Below: `_flags`, `apcore_mcp.options`.
"""

import os
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apcore_mcp.options import ServeOptions, check_host_port, check_name, make_options
from jackstay.errors import UsageError


class BadValueError(Exception):
    """Something that was said cannot be used; the words say what."""


def dest_of(flag: str) -> str:
    """Where argparse puts a flag."""
    return flag.removeprefix("--").replace("-", "_")


def as_typed(message: str, said: Namespace) -> str:
    """A sentence about an option of `serve()`, with the name that was typed: a flag, or a variable."""
    found = re.match(r"[a-z_]+\b", message)
    if found is None:
        return message
    dest = {"hosts": "allow_host"}.get(found[0], found[0])
    return f"{said.sources.get(dest, found[0])}{message[found.end() :]}"


def check(said: Namespace) -> tuple[list[Path], list[Path]]:
    """The directories of modules and of bindings, if what was said goes together and can be used. Raises: BadValueError."""
    _check_together(said)
    directories = [_directory(said, "extensions_dir", given) for given in said.extensions_dir]
    bindings = [_directory(said, "bindings", given) for given in said.bindings]
    if not directories and not bindings:
        raise BadValueError("--extensions-dir is needed: the directory of the modules to serve")
    names = [directory.name for directory in directories]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadValueError(
            f"two of --extensions-dir are called {twice}, and ids begin with that name: rename one of them"
        )
    try:
        said.port = int(said.port)
    except ValueError:
        raise BadValueError(
            as_typed(f"port must be a number from 1 to 65535, not {said.port!r}", said)
        ) from None
    try:
        check_host_port(said.host, said.port)
        check_name(said.name)
    except ValueError as error:
        raise BadValueError(as_typed(str(error), said)) from error
    return directories, bindings


def _check_together(said: Namespace) -> None:
    instead = [flag for flag in ("--check", "--export", "--print-config") if getattr(said, dest_of(flag))]
    if len(instead) > 1:
        raise BadValueError(f"{instead[0]} and {instead[1]} are two things to do: give one of them")
    for flag in ("--strict", "--embed-annotations"):
        if getattr(said, dest_of(flag)) and not said.export:
            raise BadValueError(f"{flag} is for --export: say --export openai as well")


def _directory(said: Namespace, dest: str, given: str) -> Path:
    source = said.sources[dest]
    if not given:
        # `Path("")` is the working directory, and every file in it would be run: an unset variable must not do that.
        raise BadValueError(f"{source} must not be empty")
    path = Path(given).absolute()
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        whole = "" if str(path) == given else f" ({path})"
        raise BadValueError(f"{source} {given} {what}{whole}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadValueError(f"{source} {given} cannot be read by this user")
    return path


def options_of(said: Namespace) -> ServeOptions:
    """What was said as the options of a server. Raises: BadValueError."""
    given: dict[str, Any] = {
        "transport": said.transport,
        "host": said.host,
        "port": said.port,
        "name": said.name,
        "version": said.version,
        "tags": said.tags or None,
        "prefix": said.prefix,
        "dynamic": said.dynamic,
        "validate_inputs": said.validate_inputs,
        "approval": said.approval,
        "explorer": said.explorer,
        "inspector_prefix": said.inspector_prefix,
        "metrics": said.metrics,
        "cors": tuple(said.cors),
    }
    if said.allow_host:
        from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # only over HTTP

        given["hosts"] = (*LOCAL_HOSTS, *said.allow_host)
    if said.auth_key_env:
        given["auth"] = _keys(said.auth_key_env)
    try:
        return make_options(**given)
    except ValueError as error:
        raise BadValueError(as_typed(str(error), said)) from error


def _keys(names: Sequence[str]) -> Any:
    """The keys in these variables: a command line can be seen by everybody on the machine."""
    from jackstay.server.http import keys  # noqa: PLC0415  # only with keys

    absent = [name for name in names if not os.environ.get(name)]
    if absent:
        raise BadValueError(f"--auth-key-env {absent[0]}: there is no such variable, or it is empty")
    try:
        return keys({name: os.environ[name] for name in names})
    except UsageError as error:
        raise BadValueError(f"--auth-key-env: {error.message}") from error


__all__ = ["BadValueError", "as_typed", "check", "options_of"]
