"""From the words that were typed to the command that does them.

Results go to standard output and everything else to standard error; a wrong setting, a wrong argument and a failed request are
told in words, never with a traceback.

Must never know a command by name, except the default. Above: `_entry`. Below: `_commands`, `_parsers`.
"""

from typing import NoReturn

from jackstay.shell import meant
from procontext.cli._commands import COMMANDS, DEFAULT, load
from procontext.cli._parsers import front, parser_of

DONE = 0
FAILED = 1
USAGE = 2
TERMINATED = 143


def run(words: list[str]) -> int:
    """Do what was typed; the exit code. Raises: SystemExit, as argparse does; KeyboardInterrupt; OSError."""
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    row = next((row for row in COMMANDS if words[:1] == [row.name]), None)
    if row is None:
        if words and words[0] in ("-h", "--help", "-V", "--version"):
            front().parse_args(words[:1])
        if words and not words[0].startswith("-"):
            _refuse(words[0])
        row = next(row for row in COMMANDS if row.name == DEFAULT)
        words = [DEFAULT, *words]
    command = load(row)
    return command.run(parser_of(row, command).parse_args(words[1:]))


def _refuse(word: str) -> NoReturn:
    names = [row.name for row in COMMANDS]
    hint = meant(word.lower(), names) or f"; there are {', '.join(names)}"
    front().error(f"there is no command {word!r}{hint}")


__all__ = ["DONE", "FAILED", "TERMINATED", "USAGE", "run"]
