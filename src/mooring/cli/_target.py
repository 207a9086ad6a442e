"""Which server a command is about: a name in the file given by `--config`, or the command after `--`.

The grammar is one rule: with a `--` there is no TARGET, because what follows it is the server; without, the first word is
TARGET. Nothing is started here, and no file is read that was not named.

Above: the commands, by way of `_running`. Below: `mooring.client` (files), `mooring.transport` (targets).
"""

import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Final, NamedTuple

from mooring.cli._logs import FORMATS, LEVELS
from mooring.client import read_config
from mooring.errors import UsageError
from mooring.transport import StdioTarget, stdio

EXAMPLES: Final = """\
TARGET is a name in the file given by --config ({{"mcpServers": {{...}}}}). To start a server without a file, leave TARGET out
and write its command at the end, after --.

examples:
{examples}
"""


class Chosen(NamedTuple):
    """The server that was chosen, and how `-v` shows it."""

    target: StdioTarget
    shown: str


def add_arguments(parser: ArgumentParser, words: str, help: str, *examples: str) -> None:
    """Declare what every command about a server takes. `words` are those after TARGET, for the usage line."""
    after = f" {words}" if words else ""
    name = parser.prog
    parser.usage = f"{name} [options] --config FILE TARGET{after}\n       {name} [options]{after} -- COMMAND [ARGUMENT ...]"
    lines = "\n".join(f"  {name} {example}" for example in examples)
    parser.epilog = f"{EXAMPLES.format(examples=lines)}\n{parser.epilog}"
    parser.add_argument("words", nargs="*", metavar=f"TARGET{after}", help=help)
    parser.add_argument("--config", metavar="FILE", help="the file that names servers; none is searched for")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="how long the server may take to be ready, and to answer (default: 60, and 30; progress extends the second)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, also for errors")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say which command is started, and who answered"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="default: %(default)s")
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="of logs, on standard error (default: %(default)s)",
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
        return Chosen(stdio(*arguments.server), shlex.join(arguments.server)), words
    if not words:
        raise UsageError("which server? Give a TARGET from a file with --config FILE, or a command after --")
    name = words.pop(0)
    if "://" in name:
        raise UsageError(
            f"{name.split('?', maxsplit=1)[0]} is a URL, and this version speaks only to commands: use -- COMMAND",
            path="TARGET",
        )
    if arguments.config is None:
        raise UsageError(f"where is {name!r} named? Give the file with --config FILE, or a command after --")
    config = read_config(arguments.config)
    target = config.target(name)
    shown = shlex.join(config.shown(name))
    variables = config.env_names(name)
    if variables:
        shown += f" (with {', '.join(variables)} set)"
    return Chosen(target, shown), words


def take_word(words: list[str], what: str) -> str:
    """The next word. Raises: UsageError if there is none."""
    if not words:
        raise UsageError(f"{what} is missing; see --help")
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
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
