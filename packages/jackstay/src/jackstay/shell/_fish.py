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
    text = _AT if program.commands else ""
    text += _SERVERS if program.names else ""
    text += "".join(f"{line}\n" for line in ("\ncomplete -c @name@ -f", *_lines(program)))
    function = "__" + program.name.replace("-", "_")
    return fill(text, function=function, names=program.names, name=program.name).lstrip("\n")


def _lines(program: Program) -> Iterator[str]:
    """Yield the `complete` lines."""
    for command in (Command("", "", program.options), *program.commands):
        name = command.name or '""'
        at = "complete -c @name@" + (f" -n '@function@_at {name}'" if program.commands else "")
        for option in command.options:
            yield f"{at} {_option(option)}"
        for value in filter(None, map(_value, command.positionals)):
            yield f"{at} {value}"
        if command.name:
            yield f"complete -c @name@ -n '@function@_at \"\"' -a {command.name} -d {quote(command.summary)}"


def _option(option: Option) -> str:
    parts = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.value is not None:
        parts += ("-r" if option.value.kind == "file" else "-x", _value(option.value))
    if option.help:
        parts.append(f"-d {quote(option.help)}")
    return " ".join(filter(None, parts))


def _value(value: Value) -> str:
    """Return what completes a value; empty if nothing does."""
    if value.kind == "file":
        return "-F"
    functions = {"directory": "(__fish_complete_directories)", "server": "(@function@_servers)"}
    words = " ".join(value.choices) or functions.get(value.kind)
    return f"-a '{words}'" if words else ""


def quote(text: str) -> str:
    """Quote a string as one word for fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
