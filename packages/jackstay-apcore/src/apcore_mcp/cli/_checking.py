"""Validation of the command line before apcore is imported. Errors name the flag or variable that was used."""

import logging
import os
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from apcore_mcp.cli._flags import FLAGS, PREFIX, UNLISTED
from apcore_mcp.options import ServeOptions, check_host_port, check_name, make_options
from jackstay.errors import UsageError, did_you_mean

logger = logging.getLogger("apcore_mcp")

# The flags that are options of `serve()` by the same name.
_OPTIONS: Final = (
    "transport", "host", "port", "name", "version", "tags", "prefix", "dynamic", "validate_inputs", "approval",
    "explorer", "inspector_prefix", "metrics", "cors", "explorer_prefix", "allow_execute", "observability", "strategy",
    "output_format", "backend", "otel",
)  # fmt: skip


class BadValueError(Exception):
    """An invalid value on the command line or in the environment. `code` is the exit code."""

    code: int = 1


class MissingFlagError(BadValueError):
    """A flag that is required. As for an unknown flag, the exit code is 2."""

    code = 2


def dest_of(flag: str) -> str:
    """Return the attribute of a flag in the namespace of argparse."""
    return flag.removeprefix("--").replace("-", "_")


def with_flag_name(message: str, args: Namespace) -> str:
    """Replace the name of an option of `serve()` in a message by the flag or variable that was used.

    The name is at the start of the message, or of its second part: "Unknown transport: 'x'; transport must be ...".
    """
    found = re.search(r"(?:^|; )([a-z_]+)\b", message)
    if found is None:
        return message
    dest = {"hosts": "allow_host"}.get(found[1], found[1])
    return f"{message[: found.start(1)]}{args.sources.get(dest, found[1])}{message[found.end() :]}"


def check(args: Namespace) -> tuple[list[Path], list[Path]]:
    """Check the arguments. Return the directories of modules and of bindings. Raises: BadValueError."""
    if args.empty:
        raise BadValueError(f"{args.empty[0]} is empty and protects nothing; set it, or remove it")
    _check_together(args)
    directories = [_directory(args, "extensions_dir", given) for given in args.extensions_dir]
    bindings = [_directory(args, "bindings", given) for given in args.bindings]
    if not directories and not bindings and not args.from_openapi and not _has_openapi_setting():
        raise MissingFlagError(
            "a backend source is required: --extensions-dir, the directory of the modules to serve; or --bindings,"
            " --from-openapi or mcp.openapi"
        )
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


def _has_openapi_setting() -> bool:
    """Return whether modules come from `mcp.openapi` of apcore's configuration. Raises: BadValueError."""
    try:
        from apcore_mcp.config import openapi_settings  # noqa: PLC0415  # imports apcore

        return bool(openapi_settings())
    except Exception as error:  # apcore raises its own errors, and ImportError without an extra
        raise BadValueError(f"cannot read apcore's configuration: {error}") from error


def _check_together(args: Namespace) -> None:
    modes = [flag for flag in ("--check", "--export", "--install", "--print-config") if getattr(args, dest_of(flag))]
    if len(modes) > 1:
        raise BadValueError(f"{modes[0]} and {modes[1]} cannot be used together")
    if args.jwt_require_auth and args.no_jwt_require_auth:
        sources = args.sources["jwt_require_auth"], args.sources["no_jwt_require_auth"]
        raise BadValueError(f"{sources[0]} and {sources[1]} cannot be used together")
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
    from apcore_mcp.compat.keywords import to_options  # noqa: PLC0415  # needed only here
    from apcore_mcp.config import MCP_DEFAULTS, with_settings  # noqa: PLC0415  # imports apcore

    _warn_of_unknown_variables((*MCP_DEFAULTS, "pipeline"))
    given: dict[str, Any] = {name: getattr(args, name) for name in _OPTIONS if name in args.given}
    if args.allow_host:
        from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # needed only for HTTP

        given["hosts"] = (*LOCAL_HOSTS, *args.allow_host)
    if args.auth_key_env:
        given["auth"] = _keys(args.auth_key_env)
    for name in ("max_frame_bytes", "page_size"):
        text = getattr(args, name)
        if text is not None:
            if not text.isdecimal() or not int(text):
                raise BadValueError(f"{args.sources[name]} must be an int above 0, not {text!r}")
            given[name] = int(text)
    if args.exempt_paths:
        given["exempt_paths"] = [path.strip() for path in args.exempt_paths.split(",")]
    for name in ("jwt_require_auth", "no_jwt_require_auth"):
        if name in args.given:
            given["require_auth"] = getattr(args, name) == (name == "jwt_require_auth")
    tokens = _tokens(args)
    if tokens is not None:
        given["auth"] = (given["auth"], tokens) if "auth" in given else tokens
    try:
        options = make_options(**with_settings(to_options(given)))
    except ValueError as error:
        raise BadValueError(with_flag_name(str(error), args)) from error
    # The transport may come from the settings.
    if given.get("require_auth") and options.auth is None and options.transport != "stdio":
        name = "jwt_require_auth" if args.jwt_require_auth else "no_jwt_require_auth"
        raise BadValueError(f"{args.sources[name]} needs {_KEYS}")
    return options


def _warn_of_unknown_variables(settings: Sequence[str]) -> None:
    """Log the variables that are neither a flag nor a setting: a misspelled one may be meant to protect the server."""
    known = {flag.variable for flag in (*FLAGS, *UNLISTED)} | {f"{PREFIX}{key.upper()}" for key in settings}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and not any(f"{name}_".startswith(f"{row}_") for row in known):
            logger.warning("%s has no effect%s", name, did_you_mean(name, known))


# What a key for tokens comes from.
_KEYS: Final = "--jwt-secret, --jwt-key-file or APCORE_JWT_SECRET"


def _tokens(args: Namespace) -> Any:
    """Return what verifies tokens, by the flags `--jwt-*` or `APCORE_JWT_SECRET`; None without them."""
    if args.jwt_key_file:
        try:
            key = Path(args.jwt_key_file).read_text().strip()
        except (OSError, ValueError) as error:
            raise BadValueError(f"--jwt-key-file: cannot read {args.jwt_key_file!r}: {error}") from error
    else:
        key = args.jwt_secret or os.environ.get("APCORE_JWT_SECRET", "")
        if not key.strip() and (args.jwt_secret is not None or "APCORE_JWT_SECRET" in os.environ):
            name = "APCORE_JWT_SECRET" if args.jwt_secret is None else "--jwt-secret"
            raise BadValueError(f"{name} is empty: every caller could use every tool; unset it to allow that")
    if not key:
        unused = [
            flag.flag for flag in UNLISTED if flag.name.startswith("jwt") and flag.metavar and flag.dest in args.given
        ]
        if unused:
            raise BadValueError(f"{unused[0]} needs {_KEYS}")
        return None
    from apcore_mcp.auth import JWTAuthenticator  # noqa: PLC0415  # only with tokens

    try:
        return JWTAuthenticator(
            key, algorithms=[args.jwt_algorithm], audience=args.jwt_audience, issuer=args.jwt_issuer
        )
    except ValueError as error:
        raise BadValueError(f"--jwt-*: {error}") from error


def openapi_of(args: Namespace) -> dict[str, Any] | None:
    """Return the flags `--from-openapi` and `--openapi-*` as `mcp.openapi`, or None. Raises: BadValueError."""
    if not args.from_openapi:
        return None
    pairs = [header.partition(":") for header in args.openapi_header]
    bad = next((header for header, pair in zip(args.openapi_header, pairs, strict=True) if not pair[1]), None)
    if bad is not None:
        raise BadValueError(f"--openapi-header must be NAME:VALUE, not {bad!r}")
    found: dict[str, Any] = {"spec": args.from_openapi, "include_deprecated": not args.openapi_no_deprecated}
    given = {
        "base_url": args.openapi_base_url,
        "prefix": args.openapi_prefix,
        "include": args.openapi_include,
        "exclude": args.openapi_exclude,
    }
    found.update({name: value for name, value in given.items() if value is not None})
    if pairs:
        found["headers"] = {name.strip(): value.strip() for name, _, value in pairs}
    return found


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


__all__ = ["BadValueError", "check", "openapi_of", "options_of", "with_flag_name"]
