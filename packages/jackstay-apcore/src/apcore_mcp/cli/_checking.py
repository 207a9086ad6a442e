"""Validation of the command line before apcore is imported. Errors name the flag or variable that was used."""

import os
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apcore_mcp.options import ServeOptions, check_host_port, check_name, make_options
from jackstay.errors import UsageError


class BadValueError(Exception):
    """An invalid value on the command line or in the environment."""


def dest_of(flag: str) -> str:
    """Return the attribute of a flag in the namespace of argparse."""
    return flag.removeprefix("--").replace("-", "_")


def with_flag_name(message: str, args: Namespace) -> str:
    """Replace the name of an option of `serve()` at the start of a message by the flag or variable that was used."""
    found = re.match(r"[a-z_]+\b", message)
    if found is None:
        return message
    dest = {"hosts": "allow_host"}.get(found[0], found[0])
    return f"{args.sources.get(dest, found[0])}{message[found.end() :]}"


def check(args: Namespace) -> tuple[list[Path], list[Path]]:
    """Check the arguments. Return the directories of modules and of bindings. Raises: BadValueError."""
    _check_together(args)
    directories = [_directory(args, "extensions_dir", given) for given in args.extensions_dir]
    bindings = [_directory(args, "bindings", given) for given in args.bindings]
    if not directories and not bindings:
        raise BadValueError("--extensions-dir is required: the directory of the modules to serve")
    names = [directory.name for directory in directories]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise BadValueError(
            f"two directories of --extensions-dir are named {duplicate!r}, the prefix of their ids; rename one of them"
        )
    try:
        args.port = int(args.port)
    except ValueError:
        raise BadValueError(with_flag_name(f"port must be an int from 1 to 65535, not {args.port!r}", args)) from None
    try:
        check_host_port(args.host, args.port)
        check_name(args.name)
    except ValueError as error:
        raise BadValueError(with_flag_name(str(error), args)) from error
    return directories, bindings


def _check_together(args: Namespace) -> None:
    modes = [flag for flag in ("--check", "--export", "--print-config") if getattr(args, dest_of(flag))]
    if len(modes) > 1:
        raise BadValueError(f"{modes[0]} and {modes[1]} cannot be used together")
    for flag in ("--strict", "--embed-annotations"):
        if getattr(args, dest_of(flag)) and not args.export:
            raise BadValueError(f"{flag} requires --export, for example --export openai")


def _directory(args: Namespace, dest: str, given: str) -> Path:
    source = args.sources[dest]
    if not given:
        # `Path("")` is the working directory; an empty variable must not run every file in it.
        raise BadValueError(f"{source} must not be empty")
    path = Path(given).absolute()
    if not path.is_dir():
        problem = "is not a directory" if path.exists() else "does not exist"
        absolute = "" if str(path) == given else f" ({path})"
        raise BadValueError(f"{source}: {given!r} {problem}{absolute}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadValueError(f"{source}: {given!r} is not readable by this user")
    return path


def options_of(args: Namespace) -> ServeOptions:
    """Return the arguments as the options of a server. Raises: BadValueError."""
    given: dict[str, Any] = {
        "transport": args.transport,
        "host": args.host,
        "port": args.port,
        "name": args.name,
        "version": args.version,
        "tags": args.tags or None,
        "prefix": args.prefix,
        "dynamic": args.dynamic,
        "validate_inputs": args.validate_inputs,
        "approval": args.approval,
        "explorer": args.explorer,
        "inspector_prefix": args.inspector_prefix,
        "metrics": args.metrics,
        "cors": tuple(args.cors),
    }
    if args.allow_host:
        from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # needed only for HTTP

        given["hosts"] = (*LOCAL_HOSTS, *args.allow_host)
    if args.auth_key_env:
        given["auth"] = _keys(args.auth_key_env)
    try:
        return make_options(**given)
    except ValueError as error:
        raise BadValueError(with_flag_name(str(error), args)) from error


def _keys(names: Sequence[str]) -> Any:
    """Return the keys in these environment variables. (A command line is visible to all users of the machine.)"""
    from jackstay.server.http import keys  # noqa: PLC0415  # needed only with keys

    absent = [name for name in names if not os.environ.get(name)]
    if absent:
        raise BadValueError(f"--auth-key-env: the environment variable {absent[0]} is not set or empty")
    try:
        return keys({name: os.environ[name] for name in names})
    except UsageError as error:
        raise BadValueError(f"--auth-key-env: {error.message}") from error


__all__ = ["BadValueError", "check", "options_of", "with_flag_name"]
