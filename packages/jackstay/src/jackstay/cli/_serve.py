"""`jackstay serve FILE_OR_MODULE[:NAME]`: serve the `Server` of a file or module over stdio, or over HTTP.

It loads code that was named on the command line and nothing else, and runs the server it finds there as `server.run()`
would. Logs go to standard error; standard output is the client's. Secrets are read from the environment: a command line can be
seen by everybody on the machine.
"""

import importlib
import importlib.util
import logging
import os
import re
import sys
import traceback
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jackstay.cli._logs import Logs, add_log_arguments
from jackstay.errors import UsageError
from jackstay.server import find_server

logger = logging.getLogger("jackstay.cli")

# Not names of a machine: a page that calls 0.0.0.0 would reach what only this machine should.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound to

LAST_PORT = 65_535


class Flag(NamedTuple):
    """An option of HTTP: the flag, what stands for its value (none: it is a switch), and the words in `--help`.

    `option` is the keyword of `server.run(transport="http")` that it sets; `is_many`: it may be said again.
    """

    flag: str
    metavar: str
    help: str
    option: str
    is_many: bool = False


EXAMPLES = (
    "weather.py",
    "weather.py --http 8000 --workers 2 --auth-key-env KEY --health",
)

FLAGS = (
    Flag("--path", "PATH", "where MCP is (default: /mcp)", "path"),
    Flag("--sessions", "", "keep sessions, for clients of before 2026-07-28", "sessions"),
    Flag("--workers", "N", "so many processes on the one port", "workers"),
    Flag("--auth-key-env", "NAME", "callers need the key in this environment variable", "auth", True),
    Flag("--allow-host", "HOST", "answer as this name too (default: localhost only)", "hosts", True),
    Flag("--cors", "ORIGIN", "let web pages of this origin call and read", "cors", True),
    Flag("--health", "", "tell load balancers how it is, at /health", "health"),
    Flag("--tls-cert", "FILE", "speak TLS with this certificate chain", "certfile"),
    Flag("--tls-key", "FILE", "and this private key", "keyfile"),
    Flag("--trusted-proxy", "IP", "believe X-Forwarded-* of this proxy", "trusted_proxies", True),
    Flag("--access-log", "", "log every request (with --log-level info)", "access_log"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """What to serve, where, and how to log."""
    parser.usage = (
        "jackstay serve [options] FILE_OR_MODULE[:NAME]"  # all of them would fill a screen by themselves
    )
    parser.description = f"{parser.description or ''} NAME says which."
    lines = "".join(f"  jackstay serve {example}\n" for example in EXAMPLES)
    parser.epilog = f"examples:\n{lines}{parser.epilog or ''}"
    parser.add_argument("target", metavar="FILE_OR_MODULE[:NAME]", help=SUPPRESS)
    add_log_arguments(parser)
    add_http_arguments(parser)


def add_http_arguments(
    parser: ArgumentParser, *, without: Sequence[str] = (), unshown: Sequence[str] = ()
) -> None:
    """Declare `--http` and what belongs to it; for `http_options`.

    The flags in `without` are not taken; those in `unshown` are, but have no line in the help: a screen has 24.
    """
    parser.add_argument("--http", metavar="[HOST:]PORT", help="serve HTTP there; port 0 finds a free one")
    for row in FLAGS:
        if row.flag in without:
            parser.set_defaults(**{row.option: None})
            continue
        kind: dict[str, Any] = {"action": "store_true"}
        if row.metavar:
            kind = {"metavar": row.metavar, "action": "append" if row.is_many else "store"}
        words = SUPPRESS if row.flag in unshown else row.help
        parser.add_argument(row.flag, dest=row.option, default=None, help=words, **kind)


def run(arguments: Namespace) -> int:
    """Serve until the client is gone; the exit code is the server's (0 after EOF or SIGTERM, 130 after SIGINT).

    Raises: UsageError, if there is no such file or module, or no one server in it, or an option cannot be used;
    TransportError, if the port cannot be had.
    """
    # A colon may also be in a path; a name has no slash and no dot.
    place, separator, name = arguments.target.rpartition(":")
    if not separator or not name.isidentifier():
        place, name = arguments.target, ""
    options = http_options(arguments)
    with Logs(arguments.log_level, arguments.log_format, logger=""):
        server = find_server(load(place), name or None)
        if options is None:
            return server.run()
        try:
            return server.run(transport="http", **options)
        except UsageError as error:
            raise _as_typed(error) from error


def _as_typed(error: UsageError) -> UsageError:
    """The same complaint, with options by the names that were typed."""
    flags = {row.option: row.flag for row in FLAGS}
    subject = re.match(r"\w+( and \w+)?(?=:| (must|cannot) )", error.message)
    place = subject.end() if subject else 0
    named = re.sub(r"\w+", lambda word: flags.get(word[0], word[0]), error.message[:place])
    return UsageError(named + error.message[place:], path=flags.get(error.path, error.path))


def http_options(arguments: Namespace) -> dict[str, Any] | None:
    """The keywords for `server.run(transport="http")`; None for stdio.

    Raises: UsageError, naming the flag.
    """
    given = {row.option: getattr(arguments, row.option) for row in FLAGS}
    given = {option: value for option, value in given.items() if value is not None}
    if arguments.http is None:
        for row in FLAGS:
            if row.option in given:
                raise UsageError(f"{row.flag} is for HTTP: say --http PORT as well", path=row.flag)
        return None
    host, port = _address(arguments.http)
    given |= {"host": host, "port": port}
    if "workers" in given:
        given["workers"] = _number(given["workers"], "--workers")
    if "auth" in given:
        given["auth"] = _keys(given["auth"])
    if "hosts" in given:
        from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # only who speaks HTTP loads it

        address = f"[{host}]" if ":" in host else host
        given["hosts"] = (*LOCAL_HOSTS, *(() if host in EVERYWHERE else (address,)), *given["hosts"])
    return given


def _address(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):)?([0-9]+)", text)
    if found is None:
        raise UsageError(f"--http takes PORT or HOST:PORT, not {text!r}", path="--http")
    port = _number(found[2], "--http")
    if port > LAST_PORT:
        raise UsageError(f"--http takes a port from 0 to {LAST_PORT}, not {port}", path="--http")
    return (found[1] or "127.0.0.1").strip("[]"), port


def _number(text: str, flag: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise UsageError(f"{flag} takes a number, not {text!r}", path=flag)
    return int(text)


def _keys(names: list[str]) -> Any:
    """The keys in these variables, each called by its variable's name; several in one are parted by spaces or commas."""
    from jackstay.server.http import keys  # noqa: PLC0415  # only who speaks HTTP loads it

    found = {}
    for name in names:
        secrets = os.environ.get(name, "").replace(",", " ").split()
        if not secrets:
            raise UsageError(
                f"--auth-key-env {name}: that variable is not set, or empty", path="--auth-key-env"
            )
        found[name] = secrets
    return keys(found)


def load(place: str) -> ModuleType:
    """The module of that file or name.

    Raises: UsageError, if there is none, or its code raises.
    """
    try:
        return _load(place)
    except Exception as error:  # whatever the author's code raises: a line for the terminal, and where it was
        if isinstance(error, UsageError) and error.path == place:
            raise
        logger.debug("loading %s", place, exc_info=error)
        raise UsageError(
            f"{place} cannot be loaded: {type(error).__name__}: {_reason(error)}; --log-level debug shows the traceback",
            path=place,
        ) from error


def _reason(error: Exception) -> str:
    """What was raised, and in which line of which file."""
    if isinstance(error, SyntaxError):
        return str(error)  # it says where by itself
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error} ({Path(last.filename).name}, line {last.lineno})"


def _load(place: str) -> ModuleType:
    path = Path(place)
    if path.is_dir() and not place.isidentifier():
        raise UsageError(f"{place} is a directory: name the file in it", path=place)
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise UsageError(f"there is no file {place}", path=place)
        sys.path.insert(0, str(path.resolve().parent))  # as `python FILE` does
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{place} is not a Python file: its name must end in .py", path=place)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # annotations are resolved through it
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise UsageError(f"there is no file and no module {place}", path=place) from error
        raise
