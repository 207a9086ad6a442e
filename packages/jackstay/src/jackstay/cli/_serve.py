"""`jackstay serve FILE_OR_MODULE[:NAME]`: serve the `Server` in a file or module over stdio or HTTP.

It is the same as `server.run()`. Logs go to standard error; standard output belongs to the client. Secrets are read
from the environment, because other users of the machine can see the command line.
"""

import importlib
import importlib.util
import logging
import os
import re
import sys
import traceback
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jackstay.cli._commands import add_help
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.errors import UsageError
from jackstay.server import Server, find_server, run_tasks
from jackstay.shell import StatusLine

logger = logging.getLogger("jackstay.cli")

# Never allowed in `Host`: a web page that requests 0.0.0.0 would reach a server that is for this machine only.
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound to

MAX_PORT = 65_535


class Flag(NamedTuple):
    """An HTTP option: the flag, the metavar of its value (empty for a switch), and the help.

    `option` is the keyword of `server.run(transport="http")` that it sets.
    """

    flag: str
    metavar: str
    help: str
    option: str
    is_repeatable: bool = False
    parse: Callable[[str], object] = str


FLAGS = (
    Flag("--path", "PATH", "path of the MCP endpoint (default: /mcp)", "path"),
    Flag("--sessions", "", "keep sessions, for clients before 2026-07-28", "sessions"),
    Flag("--workers", "N", "number of processes that share the port", "workers", parse=int),
    Flag("--auth-key-env", "NAME", "require the key in this environment variable", "auth", True),
    Flag("--allow-host", "HOST", "also accept this Host (default: localhost only)", "hosts", True),
    Flag("--cors", "ORIGIN", "allow web pages of this origin", "cors", True),
    Flag("--health", "", "serve health checks at /health", "health"),
    Flag("--tls-cert", "FILE", "serve TLS with this certificate chain", "certfile"),
    Flag("--tls-key", "FILE", "the private key of the certificate", "keyfile"),
    Flag("--trusted-proxy", "IP", "trust X-Forwarded-* headers of this proxy", "trusted_proxies", True),
    Flag("--access-log", "", "log every request (with --log-level info)", "access_log"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    # the list of all options would fill the screen
    add_help(
        parser,
        "FILE_OR_MODULE[:NAME]",
        examples=("weather.py --http 8000 --workers 2 --auth-key-env KEY --health",),
        more=" NAME is the variable.",
    )
    parser.add_argument("target", metavar="FILE_OR_MODULE[:NAME]", help=SUPPRESS)
    # For `jackstay dev`, whose page shows it.
    parser.add_argument("--traceback", action="store_true", help=SUPPRESS)
    add_log_arguments(parser)
    add_http_arguments(parser)
    add_backend_argument(parser)
    parser.add_argument("--tasks-only", action="store_true", help="run tasks of the task store, serve no client")


def add_backend_argument(parser: ArgumentParser) -> None:
    """Declare `--backend`, for `use_backend()`."""
    parser.add_argument("--backend", metavar="URL", help="share state in this Redis; or a variable with its URL")


def use_backend(server: Server, arguments: Namespace) -> None:
    """Make the server use the backend of `--backend`, if there is one. Raises: UsageError."""
    if arguments.backend is not None:
        from jackstay.redis import use_redis  # noqa: PLC0415  # an optional dependency

        use_redis(server, arguments.backend)


def add_http_arguments(parser: ArgumentParser, *, without: Sequence[str] = (), hidden: Sequence[str] = ()) -> None:
    """Declare `--http` and the HTTP options, for `http_options()`.

    Flags in `without` are left out. Flags in `hidden` work but are not in the help, which must fit 24 lines.
    """
    parser.add_argument("--http", metavar="[HOST:]PORT", help="serve HTTP on this address; port 0: any free port")
    for row in FLAGS:
        if row.flag in without:
            continue
        kind: dict[str, Any] = {"action": "store_true"}
        if row.metavar:
            kind = {"metavar": row.metavar, "type": row.parse, "action": "append" if row.is_repeatable else "store"}
        text = SUPPRESS if row.flag in hidden else row.help
        parser.add_argument(row.flag, dest=row.option, default=None, help=text, **kind)


def run(arguments: Namespace) -> int:
    """Serve until the client disconnects or a signal arrives: 0 after EOF or SIGTERM, 130 after SIGINT.

    Raises: UsageError if there is no such file or module, it does not contain exactly one server, or an option is
    invalid; TransportError if the port cannot be bound.
    """
    # A path may also contain a colon; a name has no slash and no dot.
    location, separator, name = arguments.target.rpartition(":")
    if not separator or not name.isidentifier():
        location, name = arguments.target, ""
    options = http_options(arguments)
    with log_to_stderr(arguments, logger=""):
        with StatusLine(f"loading {location}"):
            module = load(location, with_traceback=arguments.traceback)
        server = find_server(module, name or None)
        use_backend(server, arguments)
        if arguments.tasks_only:
            if options is not None:
                raise UsageError("--tasks-only serves no client: remove --http", path="--tasks-only")
            return run_tasks(server)
        if options is None:
            return server.run()
        try:
            return server.run(transport="http", **options)
        except UsageError as error:
            raise _with_flag_names(error) from error


def _with_flag_names(error: UsageError) -> UsageError:
    """Return the same error with command-line flags instead of keyword names."""
    flags = {row.option: row.flag for row in FLAGS}
    subject = re.match(r"\w+( and \w+)?(?=:| (must|cannot|does not) )", error.message)
    end = subject.end() if subject else 0
    renamed = re.sub(r"\w+", lambda word: flags.get(word[0], word[0]), error.message[:end])
    return UsageError(renamed + error.message[end:], path=flags.get(error.path, error.path))


def http_options(arguments: Namespace) -> dict[str, Any] | None:
    """Return the keywords for `server.run(transport="http")`, or None for stdio.

    Raises: UsageError that names the flag.
    """
    options = {row.option: value for row in FLAGS if (value := vars(arguments).get(row.option)) is not None}
    if arguments.http is None:
        for row in FLAGS:
            if row.option in options:
                raise UsageError(f"{row.flag} requires --http PORT", path=row.flag)
        return None
    host, port = _address(arguments.http)
    options |= {"host": host, "port": port}
    if "auth" in options:
        options["auth"] = _keys(options["auth"])
    if "hosts" in options:
        from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # only over HTTP

        address = f"[{host}]" if ":" in host else host
        options["hosts"] = (*LOCAL_HOSTS, *(() if host in WILDCARD_HOSTS else (address,)), *options["hosts"])
    return options


def _address(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):)?([0-9]{1,6})", text)
    if found is None:
        raise UsageError(f"--http expects PORT or HOST:PORT, got {text!r}", path="--http")
    port = int(found[2])
    if port > MAX_PORT:
        raise UsageError(f"--http expects a port from 0 to {MAX_PORT}, got {port}", path="--http")
    return (found[1] or "127.0.0.1").strip("[]"), port


def _keys(names: list[str]) -> Any:
    """Read API keys from environment variables; each key is named after its variable.

    A variable may contain several keys, separated by spaces or commas.
    """
    from jackstay.server.http import keys  # noqa: PLC0415  # only over HTTP

    found = {}
    for name in names:
        secrets = os.environ.get(name, "").replace(",", " ").split()
        if not secrets:
            raise UsageError(
                f"--auth-key-env: the environment variable {name!r} is not set or empty", path="--auth-key-env"
            )
        found[name] = secrets
    return keys(found)


def load(location: str, *, with_traceback: bool = False) -> ModuleType:
    """Import a file or module. `with_traceback`: print the traceback if its code raises.

    Raises: UsageError if it does not exist, or its code raises.
    """
    try:
        return _load(location)
    except Exception as error:  # the user's code may raise anything: print one line with its location
        if isinstance(error, UsageError) and error.path == location:
            raise
        if with_traceback:
            own = error.__traceback__
            while own is not None and own.tb_frame.f_code.co_filename.startswith((__file__, "<frozen importlib")):
                own = own.tb_next  # begin with the user's code
            traceback.print_exception(type(error), error, own)
        logger.debug("loading %s", location, exc_info=error)
        message = f"cannot load {location!r}: {type(error).__name__}: {_describe_error(error)}"
        hint = "" if with_traceback else "; --log-level debug shows the traceback"
        raise UsageError(f"{message}{hint}", path=location) from error


def _describe_error(error: Exception) -> str:
    """Return the message with the file and line where it was raised."""
    if isinstance(error, SyntaxError):
        return str(error)  # contains the location
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error} ({Path(last.filename).name}, line {last.lineno})"


def _load(location: str) -> ModuleType:
    path = Path(location)
    if path.is_dir() and not location.isidentifier():
        raise UsageError(f"{location!r} is a directory; name the file in it", path=location)
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise UsageError(f"file not found: {location!r}", path=location)
        sys.path.insert(0, str(path.resolve().parent))  # as `python FILE` does
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{location!r} is not a Python file: its name must end in .py", path=location)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # annotations are resolved through it
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name is not None and (location == error.name or location.startswith(f"{error.name}.")):
            raise UsageError(f"no such file or module: {location!r}", path=location) from error
        raise
