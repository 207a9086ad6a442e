"""Generate the completion script for fish: a line with its condition for each option and command."""

from collections.abc import Iterator

from jackstay.shell._grammar import Command, Option, Program, Value, fill

_AT = r"""
# True if the command is this one ('': none yet), and no -- was typed.
function @function@_at
    set -l typed (commandline -opc)
    set -e typed[1]
    contains -- -- $typed; and return 1
    for word in $typed
        string match -q -- '-*' $word; and continue
        test "$word" = "$argv[1]"
        return
    end
    test -z "$argv[1]"
end
"""

_SERVERS = r"""
# The names in the file of --config, unless one of them was typed.
function @function@_servers
    set -l typed (commandline -opc)
    set -l file
    for i in (seq (count $typed))
        switch $typed[$i]
            case --config
                set file $typed[(math $i + 1)]
            case '--config=*'
                set file (string replace -- --config= '' $typed[$i])
        end
    end
    test -n "$file"; or return
    set -l names (@name@ @names@ $file 2> /dev/null)
    for name in $names
        contains -- $name $typed; and return
    end
    string join -- \n $names
end
"""

_DASHES = r"""
# What follows -- is the command of a server.
function @function@_after_dashes
    contains -- -- (commandline -opc)
end

function @function@_command
    set -l typed (commandline -opc) (commandline -ct)
    set -l place (contains -i -- -- $typed)
    set -e typed[1..$place]
    complete -C (string join -- ' ' (string escape -- $typed[1..-2]) $typed[-1])
end

complete -c @name@ -n @function@_after_dashes -a '(@function@_command)'
"""


def fish(program: Program) -> str:
    """Return the script."""
    text = "".join(
        [
            _AT if program.commands else "",
            _SERVERS if program.names else "",
            _DASHES if program.has_servers else "",
            "\ncomplete -c @name@ -f\n",
            "\n".join(_lines(program)),
            "\n",
        ]
    )
    function = "__" + program.name.replace("-", "_")
    return fill(text, function=function, names=program.names, name=program.name).lstrip("\n")


def _lines(program: Program) -> Iterator[str]:
    """Yield the `complete` lines."""
    no_command = "-n '@function@_at \"\"' " if program.commands else ""
    for option in program.options:
        yield f"complete -c @name@ {no_command}{_option(option)}"
    for command in program.commands:
        yield f"complete -c @name@ {no_command}-a {command.name} -d {quote(command.summary)}"
    for command in program.commands:
        at = f"complete -c @name@ -n '@function@_at {command.name}'"
        for option in command.options:
            yield f"{at} {_option(option)}"
        for word in _positionals(command):
            yield f"{at} {word}"


def _option(option: Option) -> str:
    names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    description = f" -d {quote(option.help)}" if option.help else ""
    return names + ("" if option.value is None else f" {_value(option.value)}") + description


def _value(value: Value) -> str:
    if value.choices:
        return f"-x -a '{' '.join(value.choices)}'"
    return {"file": "-r -F", "directory": "-x -a '(__fish_complete_directories)'"}.get(value.kind, "-x")


def _positionals(command: Command) -> Iterator[str]:
    for value in command.positionals:
        if value.choices:
            yield f"-a '{' '.join(value.choices)}'"
        elif value.kind == "server":
            yield "-a '(@function@_servers)'"
        elif value.kind == "file":
            yield "-F"


def quote(text: str) -> str:
    """Quote a string as one word for fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
