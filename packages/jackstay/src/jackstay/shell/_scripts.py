"""Which shells are known, and the script for each.

Pure. Above: the commands. Below: a file for each shell.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jackstay.shell._bash import bash
from jackstay.shell._fish import fish
from jackstay.shell._words import Program
from jackstay.shell._zsh import zsh

_WRITERS: Mapping[str, Callable[[Program], str]] = MappingProxyType({"bash": bash, "zsh": zsh, "fish": fish})
# The shells whose tab key is known.
SHELLS = tuple(_WRITERS)

# Where each shell looks for the completions of a user, read when they are first needed.
PLACES: Mapping[str, str] = MappingProxyType(
    {
        "bash": "~/.local/share/bash-completion/completions/{name}",
        "zsh": "~/.zfunc/_{name}",
        "fish": "~/.config/fish/completions/{name}.fish",
    }
)


def completion_script(program: Program, shell: str) -> str:
    """What that shell reads to complete the words of a program. Raises: KeyError for a shell that is not in `SHELLS`."""
    made = f"{program.name} {program.script} {shell}"
    script = _WRITERS[shell](program)
    note = f"# Written by: {made} > {PLACES[shell].format(name=program.name)}\n"
    # zsh goes by the first line of a file.
    first, newline, rest = script.partition("\n")
    return f"{first}{newline}{note}{rest}" if first.startswith("#compdef") else note + script


__all__ = ["PLACES", "SHELLS", "completion_script"]
