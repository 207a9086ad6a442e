"""Generate the completion script for bash: two tables, written as `case`, and a loop over the words typed so far.

The script works without the bash-completion package; if that is installed, it completes the command of a server. It
supports bash 3.2, the version on macOS. Names from a file are never passed to `compgen -W`, which would expand them.
"""

from collections.abc import Iterator

from jackstay.shell._grammar import Option, Program, Value, fill

_SCRIPT = r"""
@function@_options() {
    case $1 in
@options@
    esac
}

# What completes the value of an option, or a positional: sets kind and words.
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
        elif ((COMP_CWORD == dashes + 1)); then
            @function@_fill -c
        else
            compopt -o filenames 2> /dev/null
            @function@_fill -f
        fi
        return
    fi
    [[ $cur == = ]] && cur=
    if [[ -z $kind ]]; then
        if [[ $cur == -* ]]; then
            kind=words
            @function@_options "$command"
        elif [[ -z $command && -n '@commands@' ]]; then
            kind=words words='@commands@'
        else
            @function@_value "$command $place"
        fi
    fi
    case $kind in
        words) @function@_fill -W "$words" ;;
        file)
            compopt -o filenames 2> /dev/null
            @function@_fill -f
            ;;
        directory)
            compopt -o filenames 2> /dev/null
            @function@_fill -d
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


def bash(program: Program) -> str:
    """Return the script."""
    function = "_" + program.name.replace("-", "_")
    names = [command.name for command in program.commands]
    servers = "|".join(command.name for command in program.commands if command.has_server)
    options = [("", program.options), *((command.name, command.options) for command in program.commands)]
    text = fill(
        _SCRIPT,
        options="\n".join(_options(options)),
        values="\n".join(_values(program, options)),
        function=function,
        commands=" ".join(names),
        servers=servers or "''",
        names=program.names,
        name=program.name,
    )
    return text.lstrip("\n")


def _options(rows: list[tuple[str, tuple[Option, ...]]]) -> Iterator[str]:
    for name, options in rows:
        words = " ".join(flag for option in options for flag in option.flags)
        yield f"        '{name}') words='{words}' ;;"


def _values(program: Program, rows: list[tuple[str, tuple[Option, ...]]]) -> Iterator[str]:
    """Yield one `case` line for each completion, with all patterns that use it."""
    patterns: dict[str, list[str]] = {}
    for name, options in rows:
        for option in options:
            if option.value is not None:
                keys = [f"'{name} {flag}'" for flag in option.flags]
                patterns.setdefault(_completion(option.value), []).extend(keys)
    for command in program.commands:
        for number, value in enumerate(command.positionals, 1):
            pattern = f"'{command.name} '*" if value.is_repeatable else f"'{command.name} {number}'"
            patterns.setdefault(_completion(value), []).append(pattern)
    # Patterns with a wildcard come last: they would also match the names of options.
    for has_wildcard in (False, True):
        for completion, keys in patterns.items():
            chosen = [key for key in keys if key.endswith("*") is has_wildcard]
            if chosen:
                yield f"        {' | '.join(chosen)}) {completion} ;;"


def _completion(value: Value) -> str:
    if value.choices:
        return f"kind=words words='{' '.join(value.choices)}'"
    return f"kind={value.kind or 'other'}"
