"""`jackstay completion SHELL`: print a completion script.

The script completes server names from the file that `--config` names on the line being typed. For that it runs this
command with `--names`, which starts no server.
"""

import json
import os
from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli._commands import COMMANDS, command_parser, load, main_parser
from jackstay.cli._exits import DONE
from jackstay.errors import UsageError
from jackstay.shell import SHELLS, Program, StatusLine, command_from_parser, completion_script

_EXAMPLES = """\
examples:
  jackstay completion bash > ~/.local/share/bash-completion/completions/jackstay
  jackstay completion zsh > ~/.zfunc/_jackstay
  jackstay completion fish > ~/.config/fish/completions/jackstay.fish
  source <(jackstay completion bash)    # for the current shell only

zsh needs fpath+=~/.zfunc in ~/.zshrc, before compinit.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = f"jackstay completion {'|'.join(SHELLS)}"
    parser.description = f"{parser.description or ''} Start a new shell afterwards."
    parser.epilog = f"{_EXAMPLES}{parser.epilog or ''}"
    parser.add_argument("shell", choices=SHELLS, nargs="?", help=SUPPRESS)
    parser.add_argument("--names", metavar="FILE", help=SUPPRESS)


def run(arguments: Namespace) -> int:
    """Print the script, or the server names in a file."""
    if arguments.names is not None:
        print("".join(f"{name}\n" for name in names_in(arguments.names)), end="")
    elif arguments.shell is None:
        raise UsageError(f"SHELL is missing; use one of {', '.join(SHELLS)}, as in: jackstay completion bash")
    else:
        with StatusLine("reading the options of all commands"):
            script = completion_script(program(), arguments.shell)
        print(script, end="")
    return DONE


def program() -> Program:
    """Return all commands and options, read from their parsers."""
    commands = [
        command_from_parser(row.name, row.summary, command_parser(row, load(row)), has_server=row.has_server)
        for row in COMMANDS
    ]
    options = command_from_parser("", "", main_parser()).options
    return Program("jackstay", tuple(commands), options, "completion", "completion --names")


def names_in(path: str) -> list[str]:
    """Return the server names in an mcpServers file; none if it cannot be read, because completion must not fail."""
    try:
        # The shell passes the word as it was typed.
        with open(os.path.expandvars(os.path.expanduser(path)), encoding="utf-8") as file:
            servers = json.load(file)["mcpServers"]
        return [name for name in servers if isinstance(name, str) and name.isprintable() and name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
