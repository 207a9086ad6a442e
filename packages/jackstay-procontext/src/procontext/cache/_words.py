"""Words of a search: what they have in common with their other forms, and whether a heading is called just so.

English, because documentation mostly is, and simple: a stem is looked for as the beginning of longer words, and what it finds
too much comes after what has the words as they were written.

Pure. Above: `_store`. Below: nothing.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

# The longest first. What is left must still be a word.
_ENDINGS: Final = ("ing", "ies", "es", "ed", "s")
_SHORTEST: Final = 4

_WORD = re.compile(r"\w+")
# Where the name of what is documented ends, and its parameters, type or value begin.
_BEHIND_NAME = re.compile(r"[(:=→]|->")


def stem(word: str) -> str:
    """What a word begins with in all its forms: `boats`, `boat`. Names with digits and underscores stay as they are."""
    if word.isascii() and word.isalpha() and not word.endswith("ss"):
        for ending in _ENDINGS:
            if word.lower().endswith(ending) and len(word) - len(ending) >= _SHORTEST:
                return word[: -len(ending)]
    return word


def names(words: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Whether the last of some headings is called by these words: the whole of it, or the name that a signature ends with."""
    wanted = [word.casefold() for word in words]

    def is_called_so(path: Sequence[str]) -> bool:
        heading = _BEHIND_NAME.split(path[-1], maxsplit=1)[0].casefold() if path else ""
        if _WORD.findall(heading) == wanted:
            return True
        name = heading.split()[-1:]
        return _WORD.findall("".join(name))[-len(wanted) :] == wanted

    return is_called_so


__all__ = ["names", "stem"]
