"""`jackstay completion SHELL`: print what makes the tab key complete these commands.

Names of servers are read from the file that `--config` names on the line being typed, by asking this command; nothing else is
asked, and nothing is started.

Above: `_main`. Below: `_commands` (every file of it), `jackstay.shell`.
"""

import json
import os
from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli._commands import COMMANDS, load
from jackstay.cli._exits import DONE
from jackstay.cli._parsers import front, parser_of
from jackstay.errors import UsageError
from jackstay.shell import SHELLS, Program, Value, command_of, completion_script

_EXAMPLES = """\
examples:
  jackstay completion bash > ~/.local/share/bash-completion/completions/jackstay
  jackstay completion zsh > ~/.zfunc/_jackstay
  jackstay completion fish > ~/.config/fish/completions/jackstay.fish
  source <(jackstay completion bash)    # only for the shell that is open

zsh finds it with fpath+=~/.zfunc in ~/.zshrc, in front of compinit.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Which shell."""
    parser.usage = f"jackstay completion {'|'.join(SHELLS)}"
    parser.description = f"{parser.description or ''} Begin a new shell afterwards."
    parser.epilog = f"{_EXAMPLES}{parser.epilog or ''}"
    parser.add_argument("shell", choices=SHELLS, nargs="?", help=SUPPRESS)
    parser.add_argument("--names", metavar="FILE", help=SUPPRESS)


def run(arguments: Namespace) -> int:
    """Print the script, or the names in a file."""
    if arguments.names is not None:
        print("".join(f"{name}\n" for name in names_in(arguments.names)), end="")
    elif arguments.shell is None:
        raise UsageError(f"which shell? There are {', '.join(SHELLS)}: jackstay completion bash")
    else:
        print(completion_script(program(), arguments.shell), end="")
    return DONE


def program() -> Program:
    """Every command and option, from the parsers that read them."""
    commands = []
    for row in COMMANDS:
        # Where a server can be given, the first word is a name out of a file or a URL.
        words = {"words": Value("server")} if row.has_server else None
        parser = parser_of(row, load(row))
        commands.append(command_of(row.name, row.summary, parser, words=words, has_server=row.has_server))
    before = command_of("", "", front()).options
    return Program("jackstay", tuple(commands), before, "completion", "completion --names")


def names_in(path: str) -> list[str]:
    """The names in an mcpServers file; none where it cannot be read: a tab key is no place for complaints."""
    try:
        # A shell hands the word over as it was typed.
        with open(os.path.expandvars(os.path.expanduser(path)), encoding="utf-8") as file:
            servers = json.load(file)["mcpServers"]
        return [name for name in servers if isinstance(name, str) and name.isprintable() and name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
