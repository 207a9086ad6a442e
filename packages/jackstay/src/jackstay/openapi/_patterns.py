"""How long a string may be until a match with a regular expression takes too long.

`re` backtracks: a pattern such as `([a-z]|[a-z0-9])+$` needs time that doubles with each character, and callers choose
the strings. The limit follows from the structure of the pattern and is never too high, but often lower than necessary.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

# The limits for patterns whose time grows linearly, with the square, with the cube, and so on; the last is for the
# exponential ones. Each keeps a match below about ten million steps.
_LIMITS = (10_000_000, 10_000_000, 3_000, 200, 50, 20)
_EXPONENTIAL = len(_LIMITS) - 1
# A pattern with more alternatives and optional parts counts as exponential, and a shorter repetition not as a loop.
_MAX_CHOICES = 16
_MIN_LOOP = 64

# Characters: the codes of ASCII, and one for all others.
_OTHERS = 128
_ALL = frozenset(range(_OTHERS + 1))
_DIGITS = frozenset(range(48, 58))
_WORD = _DIGITS | frozenset((95, *range(65, 91), *range(97, 123)))
_SPACE = frozenset((9, 10, 11, 12, 13, 28, 29, 30, 31, 32))
_CATEGORIES = {"DIGIT": _DIGITS | {_OTHERS}, "WORD": _WORD | {_OTHERS}, "SPACE": _SPACE | {_OTHERS}}

Characters: TypeAlias = frozenset[int]
# An item of a pattern, as Python's parser represents it: an operation and its argument.
Item: TypeAlias = tuple[Any, Any]


@lru_cache(maxsize=4096)
def max_match_length(pattern: str) -> int:
    """Return the length of the longest string that may be matched with a pattern that `re` can compile."""
    try:
        items = list(import_module("re._parser").parse(pattern))
        found = _Pattern(items)
    except (_ExponentialError, RecursionError):
        return _LIMITS[_EXPONENTIAL]
    is_anchored = bool(items) and str(items[0][0]) == "AT" and "BEGINNING" in str(items[0][1])
    loops = max((sum(1 for other in found.loops if loop & other) for loop in found.loops), default=0)
    degree = loops + (1 if loops and not is_anchored else 0)
    return _LIMITS[min(degree, _EXPONENTIAL)]


def is_linear(pattern: str) -> bool:
    """Return whether the time of a match grows linearly, so that names of any length may be matched."""
    return max_match_length(pattern) == _LIMITS[0]


class _ExponentialError(Exception):
    """The time can grow exponentially, or it is not known to grow slower."""


class _Pattern:
    """What determines the time: the characters of each loop, and the number of choices."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.loops: list[Characters] = []
        self.choices = 0
        self.characters: Characters = frozenset()
        for name, argument in items:
            self._add(str(name), argument)
            if self.choices > _MAX_CHOICES:
                raise _ExponentialError

    def _add(self, name: str, argument: Any) -> None:
        single = _characters(name, argument)
        if single is not None:
            self.characters |= single
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            self._repeat(argument[1], list(argument[2]))
        elif name == "SUBPATTERN":
            self._join(_Pattern(argument[-1]))
        elif name == "ATOMIC_GROUP":
            self._join(_Pattern(argument))
        elif name == "BRANCH":
            self.choices += len(argument[1]) - 1
            for option in argument[1]:
                self._join(_Pattern(option))
        elif name in ("ASSERT", "ASSERT_NOT"):
            self._join(_Pattern(argument[1]))
        elif name != "AT":  # a reference to a group, for example
            raise _ExponentialError

    def _join(self, other: "_Pattern") -> None:
        self.loops += other.loops
        self.choices += other.choices
        self.characters |= other.characters

    def _repeat(self, count: int, body: list[Item]) -> None:
        part = _Pattern(body)
        self.characters |= part.characters
        if count == 1:
            self.choices += 1 + part.choices
            self.loops += part.loops
        elif _is_fixed(body) or _is_deterministic(body):
            self.loops += [part.characters] if count >= _MIN_LOOP else []
            self.choices += count < _MIN_LOOP
        elif _has_separator(body):
            self.loops += part.loops or [part.characters]
            self.choices += part.choices
        else:
            raise _ExponentialError


def _unwrapped(body: Sequence[Item]) -> Sequence[Item]:
    """Return the content of a group, if it is all that there is."""
    while len(body) == 1 and str(body[0][0]) == "SUBPATTERN":
        body = list(body[0][1][-1])
    return body


def _is_fixed(body: Sequence[Item]) -> bool:
    """Return whether a part has a fixed length and matches in one way only."""
    for name, argument in _unwrapped(body):
        if str(name) in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] == argument[1] and _is_fixed(list(argument[2])):
            continue
        if _characters(str(name), argument) is None:
            return False
    return True


def _is_deterministic(body: Sequence[Item]) -> bool:
    """Return whether a part is a choice of fixed ones that differ in their first character."""
    body = _unwrapped(body)
    if len(body) != 1 or str(body[0][0]) != "BRANCH":
        return False
    options = [_unwrapped(list(option)) for option in body[0][1][1]]
    seen: Characters = frozenset()
    for option in options:
        first = _characters(str(option[0][0]), option[0][1]) if option and _is_fixed(option) else None
        if first is None or first & seen:
            return False
        seen |= first
    return True


def _has_separator(body: Sequence[Item]) -> bool:
    """Return whether a part begins or ends with a character that occurs nowhere else in it."""
    body = _unwrapped(body)
    for edge, rest in ((body[:1], body[1:]), (body[-1:], body[:-1])):
        single = _characters(str(edge[0][0]), edge[0][1]) if edge else None
        if single is not None and not single & _Pattern(rest).characters:
            return True
    return False


def _characters(name: str, argument: Any) -> Characters | None:
    """Return the characters that an item matches; None if it is not a single character. Never too few."""
    if name == "LITERAL":
        return _range(argument, argument)
    if name == "NOT_LITERAL":
        return _ALL - {argument} if argument < _OTHERS else _ALL
    if name == "ANY":
        return _ALL
    if name != "IN":
        return None
    found: Characters = frozenset()
    is_negated = False
    for kind, value in argument:
        if str(kind) == "NEGATE":
            is_negated = True
        elif str(kind) == "CATEGORY":
            category = str(value).removeprefix("CATEGORY_")
            positive = _CATEGORIES[category.removeprefix("NOT_")]
            found |= (_ALL - positive) | {_OTHERS} if category.startswith("NOT_") else positive
        else:
            low, high = (value, value) if str(kind) == "LITERAL" else value
            found |= _range(low, high)
    return (_ALL - found) | {_OTHERS} if is_negated else found


def _range(low: int, high: int) -> Characters:
    found = frozenset(range(low, min(high, _OTHERS - 1) + 1)) | ({_OTHERS} if high >= _OTHERS else frozenset())
    # A flag may ignore the case.
    return found | {ord(chr(code).swapcase()) for code in found if code < _OTHERS}
