"""What can be typed after the name of a program, as rows: what the scripts of all shells are written from.

The rows of a sub-command are read from its argparse parser, so that there is nothing to keep in step. What a value is follows
from its choices, or from the word that stands for it in `--help`: FILE is a file there and here.

Pure. Above: the commands that print scripts. Below: argparse.
"""

from argparse import SUPPRESS, Action, ArgumentParser, _AppendAction, _HelpAction, _VersionAction
from collections.abc import Mapping
from typing import NamedTuple

# How the word begins that stands for a value in --help -> what completes it. Anything else is only known to who types it.
KINDS = {"FILE": "file", "DIR": "directory"}


class Value(NamedTuple):
    """A word to be typed: one of `choices`, or a `kind`: file, directory, server (a name in the file of `--config`), or none."""

    kind: str = ""
    choices: tuple[str, ...] = ()


class Option(NamedTuple):
    """An option, by all its names; `value` is None for a switch; `is_many`: it may be said again."""

    flags: tuple[str, ...]
    help: str
    value: Value | None = None
    is_many: bool = False


class Command(NamedTuple):
    """One sub-command: `words` are those that are no options, in order; `is_endless`: the last of them comes again.

    `has_server`: what follows `--` is the command of a server, which has completions of its own.
    """

    name: str
    summary: str
    options: tuple[Option, ...]
    words: tuple[Value, ...] = ()
    is_endless: bool = False
    has_server: bool = False


class Program(NamedTuple):
    """A program: its commands, and the options in front of them. Without commands, `front` is all there is.

    `script` is what is typed for the completion of a shell, `names` for the names in a file (none: there is no such
    file); both without the program's own name, and with the shell or file to follow.
    """

    name: str
    commands: tuple[Command, ...]
    front: tuple[Option, ...]
    script: str
    names: str = ""

    @property
    def has_servers(self) -> bool:
        """Whether one of its commands starts a server."""
        return any(command.has_server for command in self.commands)


def value_of(metavar: str, choices: tuple[str, ...] = ()) -> Value:
    """What completes a value that `--help` calls so."""
    kind = next((kind for word, kind in KINDS.items() if metavar.startswith(word)), "")
    return Value("" if choices else kind, choices)


def command_of(
    name: str,
    summary: str,
    parser: ArgumentParser,
    *,
    words: Mapping[str, Value] | None = None,
    has_server: bool = False,
) -> Command:
    """The rows of a parser. `words` says of a positional, by its name, what the first word of it is."""
    options: list[Option] = []
    places: list[Value] = []
    is_endless = False
    for action in parser._actions:  # argparse shows them nowhere else
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = value_of(metavar, tuple(str(choice) for choice in action.choices or ()))
        if action.option_strings:
            if action.help == SUPPRESS and not isinstance(action, _HelpAction | _VersionAction):
                continue  # not for people
            takes = None if action.nargs == 0 else value
            flags = tuple(action.option_strings)
            options.append(Option(flags, _said(action), takes, isinstance(action, _AppendAction)))
        elif words and action.dest in words:
            places.append(words[action.dest])
        else:
            places.append(value)
            is_endless = action.nargs in ("*", "+")
    return Command(name, summary, tuple(options), tuple(places), is_endless, has_server)


def _said(action: Action) -> str:
    if isinstance(action, _HelpAction):
        return "explain it"
    if isinstance(action, _VersionAction):
        return "print the version"
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")


__all__ = ["KINDS", "Command", "Option", "Program", "Value", "command_of", "value_of"]
