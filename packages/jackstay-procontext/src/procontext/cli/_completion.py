"""`procontext completion SHELL`: print a shell completion script. It starts no process when it is used."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.shell import SHELLS, Program, StatusLine, command_from_parser, completion_script
from procontext.cli._commands import COMMANDS, DEFAULT, load
from procontext.cli._main import DONE
from procontext.cli._parsers import command_parser, main_parser


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = f"procontext completion {'|'.join(SHELLS)}"
    parser.epilog = f"For zsh, put fpath+=~/.zfunc before compinit in ~/.zshrc.\n{parser.epilog or ''}"
    parser.add_argument("shell", choices=SHELLS, help=SUPPRESS)


def run(arguments: Namespace) -> int:
    """Print the script."""
    with StatusLine("reading the options of all commands"):
        script = completion_script(program(), arguments.shell)
    print(script, end="")
    return DONE


def program() -> Program:
    """Return every command and option, taken from the argument parsers."""
    commands = tuple(command_from_parser(row.name, row.summary, command_parser(row, load(row))) for row in COMMANDS)
    # Without a command, the options of the default command apply.
    default = next(command for command in commands if command.name == DEFAULT)
    before = command_from_parser("", "", main_parser()).options
    known = {flag for option in before for flag in option.flags}
    more = tuple(option for option in default.options if known.isdisjoint(option.flags))
    return Program("procontext", commands, (*before, *more), "completion")
