"""Generate the completion script for bash: two tables, written as `case`, and a loop over the words typed so far.

The script works without the bash-completion package; if that is installed, it completes the command of a server. It
supports bash 3.2, the version on macOS. Names from a file are never passed to `compgen -W`, which would expand them.
"""

from collections.abc import Iterable, Iterator

from jackstay.shell._grammar import Command, Program, Value, fill

_SCRIPT = r"""
# What completes the value of an option, a positional, or an option itself (--): sets kind and words.
@function@_value() {
    case $1 in
@values@
        *) kind= ;;
    esac
}

@function@_fill() {
    local found
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen "$@" -- "$cur")
}

@function@() {
    local cur=${COMP_WORDS[COMP_CWORD]} command= config= option= kind= words= word dashes=0 place=1 i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then
            continue # bash splits --option=value into three words
        elif [[ -n $kind ]]; then
            [[ $option == --config ]] && config=$word
            kind=
        elif [[ $word == -- ]]; then
            dashes=$i
            break
        elif [[ $word == -* ]]; then
            option=$word
            @function@_value "$command $word"
        elif [[ -z $command && -n '@commands@' ]]; then
            command=$word
        else
            ((place++))
        fi
    done
    if ((dashes)); then
        case $command in
            @servers@) ;;
            *) return ;;
        esac
        if declare -F _command_offset > /dev/null; then
            _command_offset $((dashes + 1))
            return
        fi
        ((COMP_CWORD == dashes + 1)) && kind=-c || kind=-f
    fi
    [[ $cur == = ]] && cur=
    if [[ -z $kind ]]; then
        if [[ $cur == -* ]]; then
            @function@_value "$command --"
        elif [[ -z $command && -n '@commands@' ]]; then
            kind=words words='@commands@'
        else
            @function@_value "$command $place"
        fi
    fi
    case $kind in
        words) @function@_fill -W "$words" ;;
        -*)
            [[ $kind == -c ]] || compopt -o filenames 2> /dev/null
            @function@_fill $kind
            ;;
        server)
            [[ -n $config ]] || return
            while IFS= read -r word; do
                [[ $word == "$cur"* ]] && COMPREPLY+=("$(printf %q "$word")")
            done < <("${COMP_WORDS[0]}" @names@ "$config" 2> /dev/null)
            ;;
    esac
}

complete -F @function@ @name@
"""


# Kind of value -> what completes it: an option of `compgen`, or the names of servers.
_KINDS = {"file": "-f", "directory": "-d", "server": "server"}


def bash(program: Program) -> str:
    """Return the script."""
    text = fill(
        _SCRIPT,
        values="\n".join(_values((Command("", "", program.options), *program.commands))),
        function="_" + program.name.replace("-", "_"),
        commands=" ".join(command.name for command in program.commands),
        servers="|".join(command.name for command in program.commands if command.has_server) or "''",
        names=program.names,
        name=program.name,
    )
    return text.lstrip("\n")


def _values(commands: Iterable[Command]) -> Iterator[str]:
    """Yield one `case` line for each completion, with all patterns that use it."""
    rows: list[tuple[str, Value]] = []
    for command in commands:
        flags = tuple(flag for option in command.options for flag in option.flags)
        rows.append((f"'{command.name} --'", Value(choices=flags)))
        for option in command.options:
            if option.value is not None:
                rows += ((f"'{command.name} {flag}'", option.value) for flag in option.flags)
        for number, value in enumerate(command.positionals, 1):
            rows.append((f"'{command.name} '*" if value.is_repeatable else f"'{command.name} {number}'", value))
    merged: dict[tuple[bool, str], list[str]] = {}
    for pattern, value in rows:
        completion = f"words words='{' '.join(value.choices)}'" if value.choices else _KINDS.get(value.kind, "other")
        merged.setdefault((value.is_repeatable, completion), []).append(pattern)
    # Patterns with a wildcard come last: they would also match the names of options.
    for (_, completion), patterns in sorted(merged.items()):
        yield f"        {' | '.join(patterns)}) kind={completion} ;;"
