"""Which server a command is about: a URL, a name in the file given by `--config`, or the command after `--`.

The grammar is one rule: with a `--` there is no TARGET, because what follows it is the server; without, the first word is
TARGET. Nothing is started here, and no file is read that was not named.

Above: the commands, by way of `_running`. Below: `jackstay.client` (files), `jackstay.transport` (targets).
"""

import os
import re
import shlex
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from jackstay.cli._logs import add_log_arguments
from jackstay.client import read_config
from jackstay.errors import UsageError
from jackstay.transport import StdioTarget, stdio

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget


# A terminal of the usual size.
COLUMNS = 80


class Chosen(NamedTuple):
    """The server that was chosen, and how `-v` shows it."""

    target: "StdioTarget | HttpTarget"
    shown: str
    # What to await before it is connected to: people sign in.
    sign_in: Callable[[], Awaitable[None]] | None = None


def add_arguments(parser: ArgumentParser, words: str, *examples: str, more: str = "") -> None:
    """Declare what every command about a server takes. `words` are those after TARGET, for the usage line.

    The help fits a screen of 24 lines and 80 columns: each option has one line.
    """
    after = f" {words}" if words else ""
    name = parser.prog
    parser.usage = (
        f"{name} [options] URL{after}\n"
        f"       {name} [options] --config FILE TARGET{after}\n"
        f"       {name} [options]{after} -- COMMAND [ARGUMENT ...]"
    )
    if more:
        joined = f"{parser.description} {more}"
        parser.description = joined if len(joined) <= COLUMNS else f"{parser.description}\n{more}"
    lines = "".join(f"  {name} {example}\n" for example in examples)
    parser.epilog = f"examples:\n{lines}{parser.epilog}"
    parser.add_argument("words", nargs="*", metavar=f"TARGET{after}", help=SUPPRESS)
    add_server_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="to be ready, and to answer (default: 60, and 30)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, also for errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is started, and who answered")
    add_log_arguments(parser)


def add_server_arguments(parser: ArgumentParser) -> None:
    """Declare what says which server, beside the words: for every command that starts or reaches one."""
    parser.add_argument("--config", metavar="FILE", help="the mcpServers file that names TARGET")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="LINE",
        help="'NAME: VALUE', for a URL; ${VAR} is a variable of yours",
    )
    parser.add_argument("--ca", metavar="FILE", help="certificates of the authority to trust, for a URL")
    parser.add_argument(
        "--login",
        action="store_true",
        help="sign in with your browser; the next commands need not",
    )


def choose(arguments: Namespace) -> tuple[Chosen, list[str]]:
    """The server, and the words that are left for the command.

    Raises: UsageError.
    """
    words = list(arguments.words)
    if arguments.server is not None:
        if arguments.config is not None:
            raise UsageError(
                "--config and a command after -- are two servers: give one of them", path="--config"
            )
        _take_none_for_urls(arguments)
        _take_no_login(arguments)
        return Chosen(stdio(*arguments.server), shlex.join(arguments.server)), words
    if not words and arguments.config is not None:
        names = ", ".join(read_config(arguments.config).names) or "none"
        raise UsageError(f"which server? {arguments.config} names {names}")
    if not words:
        raise UsageError(
            "which server? Give a URL, a TARGET from a file with --config FILE, or a command after --"
        )
    name = words.pop(0)
    if "://" in name:
        if arguments.config is not None:
            raise UsageError("--config and a URL are two servers: give one of them", path="--config")
        return _at(name, arguments), words
    _take_none_for_urls(arguments)
    if arguments.config is None:
        raise UsageError(
            f"where is {name!r} named? Give the file with --config FILE, a URL ({_as_url(name)}), or a command after --"
        )
    config = read_config(arguments.config)
    target = config.target(name)
    shown = shlex.join(config.shown(name))
    variables = config.env_names(name)
    if variables:
        shown += f" (with {', '.join(variables)} set)"
    return _signed_in(target, shown, arguments), words


def _as_url(word: str) -> str:
    """What was perhaps meant, by somebody who left the beginning out."""
    if not re.match(r"[\w-]+(\.[\w-]+)+(:\d+)?(/|$)|localhost\b|[\w.-]+:\d+(/|$)", word):
        return "http://... or https://..."
    is_here = word.startswith(("localhost", "127."))
    return f"{'http' if is_here else 'https'}://{word}"


def _at(url: str, arguments: Namespace) -> Chosen:
    """The server at a URL, with the headers of the command line."""
    from jackstay.transport.http import http  # noqa: PLC0415  # other commands need no HTTP

    headers = [_header(line) for line in arguments.header]
    target = http(url, headers=headers, ca=arguments.ca)
    return _signed_in(target, url.partition("?")[0], arguments)


def _signed_in(target: "StdioTarget | HttpTarget", shown: str, arguments: Namespace) -> Chosen:
    """The server, with who is signed in to it, if it is one that people can sign in to."""
    if isinstance(target, StdioTarget):
        _take_no_login(arguments)
        return Chosen(target, shown)
    from jackstay.cli._login import with_login  # noqa: PLC0415  # as above

    target, sign_in = with_login(target, arguments.login)
    return Chosen(target, shown, sign_in)


def _header(line: str) -> tuple[str, str]:
    """Name and value, variables expanded. Raises: UsageError, without the value."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise UsageError("a header is written 'NAME: VALUE'", path="--header")

    def expand(reference: re.Match[str]) -> str:
        held = os.environ.get(reference[1])
        if held is None:
            raise UsageError(f"needs the variable {reference[1]}, which is not set", path="--header")
        return held

    return name.strip(), re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", expand, value.strip())


def _take_none_for_urls(arguments: Namespace) -> None:
    if arguments.header:
        raise UsageError(
            "--header is for a URL: a file names its own, and a command has none", path="--header"
        )
    if arguments.ca is not None:
        raise UsageError(
            "--ca is for a URL on the command line: for one in a file set SSL_CERT_FILE, and a command has none",
            path="--ca",
        )


def _take_no_login(arguments: Namespace) -> None:
    if arguments.login:
        raise UsageError("--login is for a server over HTTP, and this one is a command", path="--login")


def take_word(words: list[str], what: str, advice: str = "see --help") -> str:
    """The next word. Raises: UsageError if there is none."""
    if not words:
        raise UsageError(f"{what} is missing; {advice}")
    return words.pop(0)


def take_no_more(words: list[str]) -> None:
    """There must be none left. Raises: UsageError."""
    if words:
        raise UsageError(f"{words[0]!r} is one word too many; see --help")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.001 <= seconds <= 1e9:  # NaN is not, either
        raise ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return seconds
