"""Select the server of a command: a URL, a name in the `--config` file, or the command after `--`.

With `--`, there is no TARGET: the words after it are the server. Without it, the first word is TARGET. No server is
started here.
"""

import os
import re
import shlex
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jackstay.cli._commands import add_help, add_repeatable
from jackstay.cli._logs import add_log_arguments
from jackstay.client import read_config
from jackstay.errors import UsageError
from jackstay.protocol import VERSIONS
from jackstay.transport import StdioTarget, stdio

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget


class SelectedServer(NamedTuple):
    """The selected server, and how `-v` displays it."""

    target: "StdioTarget | HttpTarget"
    display: str
    # Awaited before connecting: the user signs in.
    sign_in: Callable[[], Awaitable[None]] | None = None

    @property
    def action(self) -> str:
        """What a command does with it, as it is displayed."""
        return "connecting to" if self.target.is_http else "starting"


def add_arguments(parser: ArgumentParser, words: str, *examples: str, more: str = "") -> None:
    """Declare the arguments of a command with a server. `words` follow TARGET in the usage line, `more` the summary.

    The help must fit 24 lines of 80 columns, so each option has one line.
    """
    after = f" {words}" if words else ""
    usages = (f"URL{after}", f"--config FILE TARGET{after}", f"{words} -- COMMAND [ARGUMENT ...]".lstrip())
    add_help(parser, *usages, examples=examples, more=more)
    parser.add_argument("words", nargs="*", metavar=f"TARGET{after}", help=SUPPRESS)
    add_server_arguments(parser)
    parser.add_argument(
        "--timeout", type=parse_number, metavar="SECONDS", help="limit to connect (default: 60) and to respond (30)"
    )
    parser.add_argument("--protocol", choices=VERSIONS, metavar="REVISION", help="use this revision of the protocol")
    parser.add_argument("--keepalive", type=parse_number, metavar="SECONDS", help="ping the server after this silence")
    add_repeatable(parser, "--roots", "DIRECTORY", "a root for the server")
    parser.add_argument("--json", action="store_true", help="print JSON, also for errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the server's command or URL, and its name")
    add_log_arguments(parser)


def add_server_arguments(parser: ArgumentParser) -> None:
    """Declare the options that select a server."""
    parser.add_argument("--config", metavar="FILE", help="the mcpServers file that contains TARGET")
    add_url_arguments(parser)
    add_repeatable(parser, "--env", "NAME[=VALUE]", "a variable for the command after --")
    parser.add_argument("--pass-env", action="store_true", help="pass all variables to the command after --")
    parser.add_argument("--login", action="store_true", help="sign in with a browser; later commands reuse it")


def add_url_arguments(parser: ArgumentParser) -> None:
    """Declare the options of a server at a URL."""
    add_repeatable(parser, "--header", "LINE", "'NAME: VALUE', for a URL; ${VAR} is expanded")
    parser.add_argument("--ca", metavar="FILE", help="CA certificates to trust, for a URL")


def select_server(arguments: Namespace) -> tuple[SelectedServer, list[str]]:
    """Return the server and the remaining words. If `arguments.login` is None, the caller signs in.

    Raises: UsageError if no server or more than one is given.
    """
    words = list(arguments.words)
    if arguments.server is not None:
        if arguments.config is not None:
            raise UsageError("--config cannot be combined with a command after --; use one of them", path="--config")
        if len(arguments.server) == 1 and _is_url(arguments.server[0]):
            return _from_url(arguments.server[0], arguments), words  # after -- by mistake
        _reject_url_options(arguments)
        program = stdio(*arguments.server, env=parse_environment(arguments.env), inherit_env=arguments.pass_env)
        return _with_login(program, shlex.join(arguments.server), arguments), words
    if arguments.env or arguments.pass_env:
        flag = "--env" if arguments.env else "--pass-env"
        raise UsageError(f"{flag} requires a command after --; a configuration file has its own env", path=flag)
    if not words and arguments.config is not None:
        names = ", ".join(read_config(arguments.config).names) or "none"
        raise UsageError(f"TARGET is missing; servers in {arguments.config!r}: {names}")
    if not words:
        raise UsageError("no server was passed; use a URL, --config FILE with a TARGET, or a command after --")
    name = words.pop(0)
    if arguments.config is None and not _is_url(name):
        # A URL after other words is the server; a resource is not http.
        misplaced = next((word for word in words if _is_url(word)), None)
        if misplaced is not None:
            words.remove(misplaced)
            words.insert(0, name)
            name = misplaced
    if "://" in name:
        if arguments.config is not None:
            raise UsageError("--config cannot be combined with a URL; use one of them", path="--config")
        return _from_url(name, arguments), words
    _reject_url_options(arguments)
    if arguments.config is None:
        for file in (name, *words):
            form = _FILE_FORMS.get(Path(file).suffix)
            if form is not None and Path(file).is_file():
                meant = form.format(shlex.quote(file))
                raise UsageError(f"unknown server {name!r}; {file!r} is a file, did you mean {meant}?")
        raise UsageError(f"unknown server {name!r}; use --config FILE, a URL ({_as_url(name)}), or a command after --")
    config = read_config(arguments.config)
    target = config.target(name)
    display = shlex.join(config.display(name))
    variables = config.env_names(name)
    if variables:
        display += f" (with {', '.join(variables)} set)"
    return _with_login(target, display, arguments), words


def select_only_server(arguments: Namespace) -> SelectedServer:
    """Return the server of a command without other words. Raises: UsageError."""
    selected, words = select_server(arguments)
    expect_no_more(words)
    return selected


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


# How a file is named on the command line.
_FILE_FORMS = {".py": "-- python {}", ".js": "-- node {}", ".json": "--config {} TARGET"}


def _as_url(word: str) -> str:
    """Return the word as a URL, if it looks like one without its scheme; else a placeholder."""
    if not re.match(r"[\w-]+(\.[\w-]+)+(:\d+)?(/|$)|localhost\b|[\w.-]+:\d+(/|$)", word):
        return "http://... or https://..."
    is_local = word.startswith(("localhost", "127."))
    return f"{'http' if is_local else 'https'}://{word}"


def _from_url(url: str, arguments: Namespace) -> SelectedServer:
    """Return the server at a URL, with the headers of the command line."""
    from jackstay.transport.http import http  # noqa: PLC0415  # only for HTTP

    headers = [parse_header(line) for line in arguments.header]
    target = http(url, headers=headers, ca=arguments.ca)
    return _with_login(target, url.partition("?")[0], arguments)


def _with_login(target: "StdioTarget | HttpTarget", display: str, arguments: Namespace) -> SelectedServer:
    """Return the server with OAuth, if it is reached over HTTP."""
    sign_in = None
    if isinstance(target, StdioTarget):
        if arguments.login:
            raise UsageError("--login requires a server over HTTP, but this one is a command", path="--login")
    elif arguments.login is not None:
        from jackstay.cli._login import with_login  # noqa: PLC0415  # only for HTTP

        target, sign_in = with_login(target, arguments.login)
    return SelectedServer(target, display, sign_in)


def parse_header(line: str) -> tuple[str, str]:
    """Return name and value with variables expanded. Raises: UsageError, which never contains the value."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise UsageError("--header expects 'NAME: VALUE'", path="--header")
    variable = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
    return name.strip(), re.sub(variable, lambda found: _variable("--header", found[1]), value.strip())


def parse_environment(words: list[str]) -> dict[str, str]:
    """Return the variables of `--env NAME[=VALUE]`. Raises: UsageError, which never contains a value."""
    variables: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise UsageError("--env expects NAME or NAME=VALUE", path="--env")
        variables[name] = value if equals else _variable("--env", name)
    return variables


def _variable(flag: str, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"{flag}: the environment variable {name!r} is not set", path=flag)
    return value


def _reject_url_options(arguments: Namespace) -> None:
    if arguments.header:
        raise UsageError(
            "--header requires a URL; a configuration file has its own headers, and a command has none", path="--header"
        )
    if arguments.ca is not None:
        raise UsageError("--ca requires a URL; for a server in a configuration file set SSL_CERT_FILE", path="--ca")


def pop_word(words: list[str], what: str, advice: str = "see --help") -> str:
    """Remove and return the next word. Raises: UsageError if there is none."""
    if not words:
        raise UsageError(f"{what} is missing; {advice}")
    return words.pop(0)


def expect_no_more(words: list[str]) -> None:
    """Raise UsageError if words are left."""
    if words:
        raise UsageError(f"unexpected argument {words[0]!r}; see --help")


def parse_number(text: str, expected: str = "a number of seconds greater than 0", maximum: float = 1e9) -> float:
    """Return a number from 0.001 to the maximum. Raises: ArgumentTypeError that names what is expected."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= maximum:  # also False for NaN
        raise ArgumentTypeError(f"expected {expected}, got {text!r}")
    return number
