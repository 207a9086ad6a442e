"""The completion of a program for zsh: a call of `_arguments` for each command.

It can be read by `source`, or lie as `_NAME` in a directory of `fpath`.

Pure. Above: `_scripts`. Below: `_words`.
"""

import re
from collections.abc import Iterator

from jackstay.shell._words import Command, Option, Program, Value

_SERVERS = r"""
# The names in the file of --config.
@quiet@_servers() {
    local file=${(Q)opt_args[--config]}
    local -a names
    [[ -n $file ]] && names=(${(f)"$(@name@ @names@ "$file" 2> /dev/null)"})
    (( $#names )) && compadd -a names
}
"""

_DASHES = r"""    # What follows -- is the command of a server.
    dashes=${words[(i)--]}
    if (( dashes < CURRENT )); then
        words=("${(@)words[dashes + 1, -1]}")
        (( CURRENT -= dashes ))
        _normal
        return
    fi
"""

_COMMANDS = r"""    _arguments -C \
@front@
        '1: :->command' \
        '*:: :->words' && return 0
    case $state in
        command)
            local -a commands=(
@commands@
            )
            _describe -t commands command commands
            ;;
        words)
            curcontext=${curcontext%:*:*}:@name@-$words[1]:
            case $words[1] in
@cases@
            esac
            ;;
    esac
"""

_SCRIPT = r"""#compdef @name@
@servers@
@quiet@() {
    local curcontext=$curcontext state line dashes
    typeset -A opt_args
@body@}

if [[ $funcstack[1] == @quiet@ ]]; then
    @quiet@ "$@"
else
    compdef @quiet@ @name@
fi
"""


# Any other word: a state that nobody asks for. An empty message in its place would keep zsh from finishing an option.
_OTHER = "'*: :->other'"


def zsh(program: Program) -> str:
    """The script."""
    if program.commands:
        body = _DASHES if program.has_servers else ""
        body += _COMMANDS
    else:
        body = f"    _arguments \\\n@front@\n        {_OTHER}\n"
    # As the file is called: zsh loads it as the function of that name.
    quiet = f"_{program.name}"
    text = _SCRIPT
    for mark, value in (
        ("servers", _SERVERS if program.names else ""),
        ("body", body),
        ("front", "\n".join(f"        {one} \\" for one in _options(program.front))),
        ("commands", "\n".join(f"                {_described(one)}" for one in program.commands)),
        ("cases", "\n".join(line for one in program.commands for line in _case(one, quiet))),
        ("quiet", quiet),
        ("names", program.names),
        ("name", program.name),
    ):
        text = text.replace(f"@{mark}@", value)
    return text


def _described(command: Command) -> str:
    return quoted(f"{command.name}:{command.summary}")


def _case(command: Command, quiet: str) -> Iterator[str]:
    arguments = [*_options(command.options)]
    for number, value in enumerate(command.words, 1):
        is_last = number == len(command.words) and command.is_endless
        arguments.append(quoted(f"{'*' if is_last else number}: :{_action(value, quiet, '->other')}"))
    if not command.is_endless:
        arguments.append(_OTHER)
    yield f"                {command.name})"
    yield "                    _arguments \\"
    yield " \\\n".join(f"                        {argument}" for argument in arguments)
    yield "                    ;;"


def _options(options: tuple[Option, ...]) -> Iterator[str]:
    for option in options:
        # Said once, it is not offered again, by any of its names.
        before = "*" if option.is_many else f"({' '.join(option.flags)})"
        said = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
        after = "" if option.value is None else f": :{_action(option.value, '', ' ')}"
        for flag in option.flags:
            yield quoted(f"{before}{flag}[{said}]{after}")


def _action(value: Value, quiet: str, other: str) -> str:
    """How zsh completes it; `other` for what nobody can know."""
    if value.choices:
        return f"({' '.join(value.choices)})"
    return {"file": "_files", "directory": "_files -/", "server": f"{quiet}_servers"}.get(value.kind, other)


def quoted(text: str) -> str:
    """As one word of a shell, whatever is in it."""
    return "'" + text.replace("'", "'\\''") + "'"


__all__ = ["quoted", "zsh"]
