"""The completion of a program for fish: a line for each option and command, and the conditions they stand under.

Pure. Above: `_scripts`. Below: `_words`.
"""

from collections.abc import Iterator

from jackstay.shell._words import Command, Option, Program, Value

_AT = r"""
# Whether the command is this one (none yet: ''), and no -- was typed.
function @quiet@_at
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
# The names in the file of --config, as long as none of them was typed.
function @quiet@_servers
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
function @quiet@_after_dashes
    contains -- -- (commandline -opc)
end

function @quiet@_command
    set -l typed (commandline -opc) (commandline -ct)
    set -l place (contains -i -- -- $typed)
    set -e typed[1..$place]
    complete -C (string join -- ' ' (string escape -- $typed[1..-2]) $typed[-1])
end

complete -c @name@ -n @quiet@_after_dashes -a '(@quiet@_command)'
"""


def fish(program: Program) -> str:
    """The script."""
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
    quiet = "__" + program.name.replace("-", "_")
    for mark, value in (("quiet", quiet), ("names", program.names), ("name", program.name)):
        text = text.replace(f"@{mark}@", value)
    return text.lstrip("\n")


def _lines(program: Program) -> Iterator[str]:
    """Under what condition, and what."""
    nowhere = "-n '@quiet@_at \"\"' " if program.commands else ""
    for option in program.front:
        yield f"complete -c @name@ {nowhere}{_option(option)}"
    for command in program.commands:
        yield f"complete -c @name@ {nowhere}-a {command.name} -d {quoted(command.summary)}"
    for command in program.commands:
        at = f"complete -c @name@ -n '@quiet@_at {command.name}'"
        for option in command.options:
            yield f"{at} {_option(option)}"
        for word in _words(command):
            yield f"{at} {word}"


def _option(option: Option) -> str:
    names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    said = f" -d {quoted(option.help)}" if option.help else ""
    return names + ("" if option.value is None else f" {_value(option.value)}") + said


def _value(value: Value) -> str:
    if value.choices:
        return f"-x -a '{' '.join(value.choices)}'"
    return {"file": "-r -F", "directory": "-x -a '(__fish_complete_directories)'"}.get(value.kind, "-x")


def _words(command: Command) -> Iterator[str]:
    for value in command.words:
        if value.choices:
            yield f"-a '{' '.join(value.choices)}'"
        elif value.kind == "server":
            yield "-a '(@quiet@_servers)'"
        elif value.kind == "file":
            yield "-F"


def quoted(text: str) -> str:
    """As one word of fish, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


__all__ = ["fish", "quoted"]
