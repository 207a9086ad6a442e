"""The completion of a program for bash: two tables, written as `case`, and the walk over the words that were typed.

Nothing of bash-completion is needed; where it is there, it completes the command of a server. Written for bash 3.2 on, which
is what macOS has. Names out of a file are never given to `compgen -W`, which would expand them.

Pure. Above: `_scripts`. Below: `_words`.
"""

from collections.abc import Iterator

from jackstay.shell._words import Option, Program, Value

_SCRIPT = r"""
@quiet@_options() {
    case $1 in
@options@
    esac
}

# What stands after an option of a command, or at a place: sets kind, and words.
@quiet@_value() {
    case $1 in
@values@
        *) kind= ;;
    esac
}

@quiet@_fill() {
    local found
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen "$@" -- "$cur")
}

@quiet@() {
    local cur=${COMP_WORDS[COMP_CWORD]} command= config= option= kind= words= word dashes=0 place=1 i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then
            continue # bash makes three words of --option=value
        elif [[ -n $kind ]]; then
            [[ $option == --config ]] && config=$word
            kind=
        elif [[ $word == -- ]]; then
            dashes=$i
            break
        elif [[ $word == -* ]]; then
            option=$word
            @quiet@_value "$command $word"
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
            @quiet@_fill -c
        else
            compopt -o filenames 2> /dev/null
            @quiet@_fill -f
        fi
        return
    fi
    [[ $cur == = ]] && cur=
    if [[ -z $kind ]]; then
        if [[ $cur == -* ]]; then
            kind=words
            @quiet@_options "$command"
        elif [[ -z $command && -n '@commands@' ]]; then
            kind=words words='@commands@'
        else
            @quiet@_value "$command $place"
        fi
    fi
    case $kind in
        words) @quiet@_fill -W "$words" ;;
        file)
            compopt -o filenames 2> /dev/null
            @quiet@_fill -f
            ;;
        directory)
            compopt -o filenames 2> /dev/null
            @quiet@_fill -d
            ;;
        server)
            [[ -n $config ]] || return
            while IFS= read -r word; do
                [[ $word == "$cur"* ]] && COMPREPLY+=("$(printf %q "$word")")
            done < <("${COMP_WORDS[0]}" @names@ "$config" 2> /dev/null)
            ;;
    esac
}

complete -F @quiet@ @name@
"""


def bash(program: Program) -> str:
    """The script."""
    quiet = "_" + program.name.replace("-", "_")
    names = [command.name for command in program.commands]
    servers = "|".join(command.name for command in program.commands if command.has_server)
    options = [("", program.front), *((command.name, command.options) for command in program.commands)]
    text = _SCRIPT
    for mark, value in (
        ("options", "\n".join(_options(options))),
        ("values", "\n".join(_values(program))),
        ("quiet", quiet),
        ("commands", " ".join(names)),
        ("servers", servers or "''"),
        ("names", program.names),
        ("name", program.name),
    ):
        text = text.replace(f"@{mark}@", value)
    return text.lstrip("\n")


def _options(rows: list[tuple[str, tuple[Option, ...]]]) -> Iterator[str]:
    for name, options in rows:
        words = " ".join(flag for option in options for flag in option.flags)
        yield f"        '{name}') words='{words}' ;;"


def _values(program: Program) -> Iterator[str]:
    """A line for each answer, with everything that it is the answer to."""
    asked: dict[str, list[str]] = {}
    for option in program.front:
        _ask(asked, "", option)
    for command in program.commands:
        for option in command.options:
            _ask(asked, command.name, option)
        for number, value in enumerate(command.words, 1):
            is_last = number == len(command.words) and command.is_endless
            place = f"'{command.name} '*" if is_last else f"'{command.name} {number}'"
            asked.setdefault(_answer(value), []).append(place)
    # Any place of a command is a pattern: it comes after the options, whose names it would match.
    for answer, keys in asked.items():
        yield from _line(answer, [key for key in keys if not key.endswith("*")])
    for answer, keys in asked.items():
        yield from _line(answer, [key for key in keys if key.endswith("*")])


def _line(answer: str, keys: list[str]) -> Iterator[str]:
    if keys:
        yield f"        {' | '.join(keys)}) {answer} ;;"


def _ask(asked: dict[str, list[str]], command: str, option: Option) -> None:
    if option.value is not None:
        keys = [f"'{command} {flag}'" for flag in option.flags]
        asked.setdefault(_answer(option.value), []).extend(keys)


def _answer(value: Value) -> str:
    if value.choices:
        return f"kind=words words='{' '.join(value.choices)}'"
    return f"kind={value.kind or 'other'}"


__all__ = ["bash"]
