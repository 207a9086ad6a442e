"""The commands, options and values of a program, from which the completion scripts are generated.

They are read from the argparse parsers. The kind of a value follows from its choices or its metavar: FILE is a file.
"""

from argparse import SUPPRESS, Action, ArgumentParser, _AppendAction, _HelpAction, _VersionAction
from typing import NamedTuple

# Prefix of a metavar -> kind of value. Other values have no completion.
KINDS = {"FILE": "file", "DIR": "directory"}

# Help of the options that every parser has. Their own help may be hidden.
HELP_TEXTS: dict[type[Action], str] = {_HelpAction: "show this help", _VersionAction: "print the version"}


class Value(NamedTuple):
    """A value: one of `choices`, or a `kind`: `file`, `directory`, `server` (a name in the `--config` file) or `""`.

    `is_repeatable`: the last positional may be repeated.
    """

    kind: str = ""
    choices: tuple[str, ...] = ()
    is_repeatable: bool = False


class Option(NamedTuple):
    """An option with all its names. `value` is None for a switch."""

    flags: tuple[str, ...]
    help: str
    value: Value | None = None
    is_repeatable: bool = False


class Command(NamedTuple):
    """A sub-command. `has_server`: the words after `--` are the command of a server, which has its own completion."""

    name: str
    summary: str
    options: tuple[Option, ...]
    positionals: tuple[Value, ...] = ()
    has_server: bool = False


class Program(NamedTuple):
    """A program with its sub-commands. `options` are those before the sub-command, or all if there is none.

    `script` are the arguments that print a completion script, before the name of the shell. `names` are the arguments
    that print the server names of a configuration file, before the path; empty if the program starts no servers.
    """

    name: str
    commands: tuple[Command, ...]
    options: tuple[Option, ...]
    script: str
    names: str = ""


def fill(script: str, **values: str) -> str:
    """Return a script with these values in place of `@name@`, one after the other: a value may have later marks."""
    for mark, value in values.items():
        script = script.replace(f"@{mark}@", value)
    return script


def value_from_metavar(metavar: str, choices: tuple[str, ...] = ()) -> Value:
    """Return the value that a metavar in `--help` stands for."""
    kind = next((kind for word, kind in KINDS.items() if metavar.startswith(word)), "")
    return Value("" if choices else kind, choices)


def command_from_parser(name: str, summary: str, parser: ArgumentParser, *, has_server: bool = False) -> Command:
    """Read a parser. With `has_server`, the first of the positionals `words` selects a server."""
    options: list[Option] = []
    values: list[Value] = []
    for action in parser._actions:  # argparse has no public API for this
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = value_from_metavar(metavar, tuple(str(choice) for choice in action.choices or ()))
        if action.option_strings:
            text = HELP_TEXTS.get(type(action), action.help) or ""
            if text != SUPPRESS:
                text = text.replace("%(default)s", str(action.default)).replace("%%", "%")
                argument = None if action.nargs == 0 else value
                options.append(Option(tuple(action.option_strings), text, argument, isinstance(action, _AppendAction)))
        elif has_server and action.dest == "words":
            values.append(Value("server"))
        else:
            values.append(value._replace(is_repeatable=action.nargs in ("*", "+")))
    return Command(name, summary, tuple(options), tuple(values), has_server)
