"""`procontext completion SHELL`: print what makes the tab key complete these commands. Nothing is asked and started for it."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.shell import SHELLS, Program, command_of, completion_script
from procontext.cli._commands import COMMANDS, DEFAULT, load
from procontext.cli._main import DONE
from procontext.cli._parsers import front, parser_of


def add_arguments(parser: ArgumentParser) -> None:
    """Which shell."""
    parser.usage = f"procontext completion {'|'.join(SHELLS)}"
    parser.epilog = (
        f"zsh finds it with fpath+=~/.zfunc in ~/.zshrc, in front of compinit.\n{parser.epilog or ''}"
    )
    parser.add_argument("shell", choices=SHELLS, help=SUPPRESS)


def run(arguments: Namespace) -> int:
    """Print the script."""
    print(completion_script(program(), arguments.shell), end="")
    return DONE


def program() -> Program:
    """Every command and option, from the parsers that read them."""
    commands = tuple(command_of(row.name, row.summary, parser_of(row, load(row))) for row in COMMANDS)
    # Without a command, the words are those of the default.
    default = next(command for command in commands if command.name == DEFAULT)
    before = command_of("", "", front()).options
    known = {flag for option in before for flag in option.flags}
    more = tuple(option for option in default.options if known.isdisjoint(option.flags))
    return Program("procontext", commands, (*before, *more), "completion")
