"""Search terms: a simple English stemmer, and matching of headings by name.

A stem is searched as a prefix. What it matches too much ranks below the exact matches.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

# The longest first. What remains must still be a word.
_ENDINGS: Final = ("ing", "ies", "es", "ed", "s")
_MIN_STEM_LENGTH: Final = 4

_WORD = re.compile(r"\w+")
# Where the name of a documented object ends and its parameters, type or value begin.
_BEHIND_NAME = re.compile(r"[(:=→]|->")


def stem(word: str) -> str:
    """Return the common prefix of the forms of a word: `boats`, `boat`. Names with digits or `_` are unchanged."""
    if word.isascii() and word.isalpha() and not word.endswith("ss"):
        for ending in _ENDINGS:
            if word.lower().endswith(ending) and len(word) - len(ending) >= _MIN_STEM_LENGTH:
                return word[: -len(ending)]
    return word


def heading_matcher(terms: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return a predicate for heading paths whose last heading, or the name of its signature, equals these terms."""
    wanted = [term.casefold() for term in terms]

    def matches(path: Sequence[str]) -> bool:
        heading = _BEHIND_NAME.split(path[-1], maxsplit=1)[0].casefold() if path else ""
        if _WORD.findall(heading) == wanted:
            return True
        name = heading.split()[-1:]
        return _WORD.findall("".join(name))[-len(wanted) :] == wanted

    return matches


__all__ = ["heading_matcher", "stem"]
