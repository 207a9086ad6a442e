"""Generate the completion script for zsh: a call of `_arguments` for each command.

The script can be sourced, or stored as `_NAME` in a directory of `fpath`.
"""

import re
from collections.abc import Iterator
from shlex import quote

from jackstay.shell._grammar import Command, Option, Program, Value, fill

_SERVERS = r"""
# The names in the file of --config.
@function@_servers() {
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
@options@
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
@function@() {
    local curcontext=$curcontext state line dashes
    typeset -A opt_args
@body@}

if [[ $funcstack[1] == @function@ ]]; then
    @function@ "$@"
else
    compdef @function@ @name@
fi
"""


# Any other word: an unused state. An empty message instead would prevent zsh from completing an option.
_OTHER = "'*: :->other'"


def zsh(program: Program) -> str:
    """Return the script."""
    body = f"    _arguments \\\n@options@\n        {_OTHER}\n"
    if program.commands:
        body = (_DASHES if program.names else "") + _COMMANDS
    commands = (quote(f"{command.name}:{command.summary}") for command in program.commands)
    return fill(
        _SCRIPT,
        servers=_SERVERS if program.names else "",
        body=body,
        options="\n".join(f"        {line} \\" for line in _options(program.options)),
        commands="\n".join(f"                {command}" for command in commands),
        cases="\n".join(_case(command) for command in program.commands),
        function=f"_{program.name}",  # like the file: zsh loads it as the function of that name
        names=program.names,
        name=program.name,
    )


def _case(command: Command) -> str:
    arguments = [*_options(command.options)]
    for number, value in enumerate(command.positionals, 1):
        place = "*" if value.is_repeatable else number
        arguments.append(quote(f"{place}: :{_action(value, '->other')}"))
    if not any(value.is_repeatable for value in command.positionals):
        arguments.append(_OTHER)
    lines = " \\\n".join(f"                        {argument}" for argument in arguments)
    return f"                {command.name})\n                    _arguments \\\n{lines}\n                    ;;"


def _options(options: tuple[Option, ...]) -> Iterator[str]:
    for option in options:
        # An option that was typed is not offered again, by any of its names.
        before = "*" if option.is_repeatable else f"({' '.join(option.flags)})"
        description = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
        after = "" if option.value is None else f": :{_action(option.value, ' ')}"
        for flag in option.flags:
            yield quote(f"{before}{flag}[{description}]{after}")


def _action(value: Value, other: str) -> str:
    """Return the action that completes this value; `other` if there is none."""
    if value.choices:
        return f"({' '.join(value.choices)})"
    return {"file": "_files", "directory": "_files -/", "server": "@function@_servers"}.get(value.kind, other)
