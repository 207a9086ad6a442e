"""The name index: exact matches by package, identifier and alias, in that order, then fuzzy matches.

All matches of the first stage that has any are returned, ranked. A wrong library is worse than none, so fuzzy matches
are limited to plausible typing errors: `fastapi-users` is not FastAPI, and `async` is not asyncpg. Names under four
characters match exactly only. An index is immutable.
"""

import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations
from typing import Final, NamedTuple, TypeAlias

from procontext.models import Library, Match, MatchedVia
from procontext.resolve._names import canonical, normalise, parent_packages, spoken_names, strip_separators

# The minimum similarity of a fuzzy match, in percent.
MIN_SCORE: Final = 70.0

MIN_FUZZY_LENGTH: Final = 4
MAX_MATCHES: Final = 5

# (maximum length of a name, allowed Indel distance). A transposition and a wrong character count as two.
EDITS: Final = ((4, 1), (8, 2), (500, 3))

# For a word of fewer than four characters in a longer name: one transposition, or one wrong character.
MAX_SHORT_EDITS: Final = 2

# The size of the bit set of letters that preselects names.
LETTER_BITS: Final = 16

_WORD: Final = re.compile(r"[a-z0-9]+")

# `winston.js` and `winstonjs` are winston, if that is on npm. The exceptions are other projects.
_JS_SUFFIX: Final = re.compile(r"(.{2,}?)[-_.\s]?js")
_JS_NAMES: Final = frozenset(("angularjs", "angular.js"))

# Libraries with a name, and how they have it.
_Exact: TypeAlias = list[tuple[Library, MatchedVia]]


class _FuzzyIndex(NamedTuple):
    """All names by their length and the bit set of their letters.

    Similar names have nearly the same length and letters, so the bit sets rule out most names before the slow
    comparison: comparing a hundred thousand names would take 50 ms.
    """

    names: list[str]
    owners: list[Library]
    positions: dict[int, dict[int, list[int]]]

    def candidates(self, bits: int, length: int, edits: int) -> list[int]:
        """Return the positions of all names within this number of edits, and of some others."""
        found: list[int] = []
        for size in range(length - edits, length + edits + 1):
            same_length = self.positions.get(size, {})
            # The Indel distance is odd if the difference of the lengths is.
            most = edits - (edits - size + length) % 2
            changes = bit_changes(most)
            if len(same_length) < len(changes):
                near = [places for other, places in same_length.items() if (other ^ bits).bit_count() <= most]
                found += chain.from_iterable(near)
            else:  # fewer changes than bit sets: look up each
                for change in changes:
                    found += same_length.get(bits ^ change, ())
        return found


class Index:
    """The names of a set of libraries. Equal matches keep the order of the libraries."""

    def __init__(self, libraries: Iterable[Library], undocumented: Iterable[str] = ()) -> None:
        self._ids: dict[str, Library] = {}
        self._packages: dict[str, tuple[Library, ...]] = {}
        self._aliases: dict[str, tuple[Library, ...]] = {}
        self._scopes: dict[str, tuple[Library, ...]] = {}
        self._spellings: dict[str, tuple[Library, ...]] | None = None
        self._fuzzy: _FuzzyIndex | None = None
        self._lock = threading.Lock()
        # Packages that exist and have no row: a name that is similar to theirs is not a typing error.
        self._undocumented = frozenset(undocumented)
        for library in libraries:
            self._add(library)

    def __repr__(self) -> str:
        return f"<Index of {len(self._ids)} libraries>"

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Library]:
        return iter(self._ids.values())

    def get(self, library_id: str) -> Library | None:
        """Return the library with this identifier, or None."""
        return self._ids.get(library_id)

    def resolve(self, query: str) -> list[Match]:
        """Return the libraries that match a query, best first."""
        name = normalise(query)
        if not name:
            return []
        found = self._named(name)
        if found is not None:
            return [_match(library, via, 1.0) for library, via in found]
        return [_match(library, "fuzzy", round(score / 100, 2)) for library, score in self._similar(name)]

    @property
    def is_warm(self) -> bool:
        """Whether the index for fuzzy matching is built."""
        return self._fuzzy is not None and self._spellings is not None

    def warm(self) -> None:
        """Build the index for fuzzy matching on this thread."""
        from rapidfuzz import fuzz, process  # noqa: F401, PLC0415  # imported to be loaded

        self._spelled("")
        self._fuzzy_index()

    # --- exact matches ------------------------------------------------------------------------------------------------

    def _add(self, library: Library) -> None:
        alone = (library,)
        self._ids[library.id] = library
        packages, aliases = self._packages, self._aliases
        for index, package in library.packages.names():
            name = package.lower()
            _put(packages, name, alone)
            if index in ("pypi", "crates"):
                _put(packages, canonical(name), alone)
            elif index == "npm" and name.startswith("@"):
                _put(self._scopes, name.partition("/")[0], alone)
            elif index == "maven":
                _put(packages, name.rpartition(":")[2], alone)
        for name in library.aliases:
            _put(aliases, name.lower(), alone)
        _put(aliases, library.name.lower(), alone)

    def owner(self, query: str) -> Library | None:
        """Return the first library with exactly this name in any spelling, or None."""
        name = normalise(query)
        found = self._named(name) if name else None
        return None if found is None else found[0][0]

    def _named(self, name: str) -> _Exact | None:
        found = self._exact(name)
        if found is None:
            for parent in parent_packages(name):
                found = self._exact(parent)
                if found is not None:
                    break
        found = found or self._without_js_suffix(name) or self._of_scope(name)
        for spoken in () if found is not None else spoken_names(name):
            found = self._exact(spoken) or self._without_js_suffix(spoken)
            if found is not None:
                return [(library, "alias") for library, _ in found]
        return found

    def _of_scope(self, name: str) -> _Exact | None:
        """Match an npm package whose scope belongs to one library: `@tiptap/starter-kit`."""
        scope = name.partition("/")[0] if name.startswith("@") else ""
        owners = self._scopes.get(scope, ())
        return [(owners[0], "alias")] if len(owners) == 1 else None

    def _exact(self, name: str) -> _Exact | None:
        plain = canonical(name)
        packages = self._packages.get(name) or self._packages.get(plain)
        if packages is None:
            library = self._ids.get(name) or self._ids.get(plain)
            if library is not None:
                return [(library, "library_id")]
            aliases = self._aliases.get(name) or self._aliases.get(plain)
            if aliases is None and plain not in self._undocumented:  # `deepmerge` is not deep-merge
                aliases = self._spelled(strip_separators(name))
            return [(library, "alias") for library in _ranked(aliases, plain)] if aliases else None
        found: _Exact = [(library, "package_name") for library in packages]
        # Libraries for other languages that are known by this name: `csv` is a crate and a module of Python.
        languages = {language for library in packages for language in library.languages}
        for library in dict.fromkeys((*self._owners_of(name), *self._owners_of(plain))):
            if library.languages and languages.isdisjoint(library.languages):
                found.append((library, "library_id" if library.id in (name, plain) else "alias"))
        if len(found) > len(packages):
            order = {library_id: at for at, library_id in enumerate(self._ids)}
            found.sort(key=lambda pair: order[pair[0].id])
        return sorted(found, key=lambda pair: pair[0].id != plain)

    def _owners_of(self, name: str) -> Iterator[Library]:
        """Return the libraries with this identifier or alias."""
        if name in self._ids:
            yield self._ids[name]
        yield from self._aliases.get(name, ())

    def _without_js_suffix(self, name: str) -> _Exact | None:
        """Match a name without its suffix js."""
        stem = _JS_SUFFIX.fullmatch(name)
        found = self._exact(stem[1]) if stem is not None and name not in _JS_NAMES else None
        scripts: _Exact = [(library, "alias") for library, _ in found or () if library.packages.npm]
        return scripts or None

    def _spelled(self, name: str) -> tuple[Library, ...] | None:
        """Match any name without its separators."""
        if self._spellings is None:
            with self._lock:
                if self._spellings is None:  # another thread may have built it
                    self._spellings = self._build_spellings()
        return self._spellings.get(name)

    def _build_spellings(self) -> dict[str, tuple[Library, ...]]:
        spellings: dict[str, tuple[Library, ...]] = {}
        for library in self:
            alone = (library,)
            for name in _names_of(library):
                _put(spellings, strip_separators(name), alone)
        return spellings

    # --- fuzzy matches ------------------------------------------------------------------------------------------------

    def _fuzzy_index(self) -> _FuzzyIndex:
        if self._fuzzy is None:
            with self._lock:
                if self._fuzzy is None:
                    self._fuzzy = self._build_fuzzy()
        return self._fuzzy

    def _build_fuzzy(self) -> _FuzzyIndex:
        fuzzy = _FuzzyIndex([], [], {})
        for library in self:
            for name in _names_of(library):
                if len(name) < MIN_FUZZY_LENGTH or (name in sys.stdlib_module_names and name in library.aliases):
                    continue  # a module of the standard library would attract packages with similar names
                same_length = fuzzy.positions.setdefault(len(name), {})
                same_length.setdefault(letters(name), []).append(len(fuzzy.names))
                fuzzy.names.append(name)
                fuzzy.owners.append(library)
        return fuzzy

    def _similar(self, name: str) -> list[tuple[Library, float]]:
        length = len(name)
        if length < MIN_FUZZY_LENGTH or canonical(name) in self._undocumented or _is_near_module(name):
            return []
        from rapidfuzz import fuzz, process  # noqa: PLC0415  # takes 20 ms, and exact names do not need it

        fuzzy = self._fuzzy_index()
        edits = max_edits(length)
        candidates = fuzzy.candidates(letters(name), length, edits)
        # The minimum score of a name within this number of edits; a higher cutoff is faster.
        least = max(MIN_SCORE, 100 * (1 - edits / (2 * length - edits)) - 0.001)
        names = fuzzy.names
        found = process.extract(
            name, [names[place] for place in candidates], scorer=fuzz.ratio, score_cutoff=least, limit=None
        )
        best: dict[str, tuple[Library, float]] = {}
        for candidate, score, place in found:
            library = fuzzy.owners[candidates[place]]
            if library.id in best or round((1 - score / 100) * (length + len(candidate))) > edits:
                continue
            if (
                _begins_alike(candidate, name)
                and _digits(candidate) == _digits(name)
                and not (
                    _is_shortened(candidate, name)
                    or _is_extension(candidate, name)
                    or _is_sibling(candidate, name)
                    or _has_other_words(candidate, name)
                )
            ):
                best[library.id] = (library, score)
                if len(best) == MAX_MATCHES:
                    break
        return list(best.values())


def letters(name: str) -> int:
    """Return the bit set of the characters of a name. One edit changes at most one bit."""
    bits = 0
    for character in set(name):
        bits |= 1 << (ord(character) % LETTER_BITS)
    return bits


@cache
def bit_changes(edits: int) -> tuple[int, ...]:
    """Return all changes of a bit set that this number of edits can make."""
    return tuple(
        sum(1 << bit for bit in chosen)
        for count in range(edits + 1)
        for chosen in combinations(range(LETTER_BITS), count)
    )


def max_edits(length: int) -> int:
    """Return the allowed Indel distance for a name of this length."""
    return next((edits for longest, edits in EDITS if length <= longest), 0)


def _is_shortened(candidate: str, name: str) -> bool:
    """Return whether the candidate is the name without some words: another package of the family, not a typo."""
    remaining = _WORD.findall(name)
    candidate_words = _WORD.findall(candidate)
    if len(candidate_words) >= len(remaining):
        return False
    for word in candidate_words:
        if word not in remaining:
            return False
        remaining.remove(word)
    return True


def _is_sibling(candidate: str, name: str) -> bool:
    """Return whether the names differ in one short word by more than a typo: `react-foo` is not React Flow."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415  # already loaded by the caller

    pairs = list(zip(_WORD.findall(candidate), _WORD.findall(name), strict=False))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if len(pairs) < 2 or len(differing) != 1:
        return False
    left, right = differing[0]
    return min(len(left), len(right)) < MIN_FUZZY_LENGTH and Indel.distance(left, right) > MAX_SHORT_EDITS


def _has_other_words(candidate: str, name: str) -> bool:
    """Return whether one name has more words, and two more letters: `cel-python` is not CPython."""
    left, right = _WORD.findall(candidate), _WORD.findall(name)
    return len(left) != len(right) and abs(len("".join(left)) - len("".join(right))) > 1


def _begins_alike(candidate: str, name: str) -> bool:
    """Return whether both start with the same letter, or a single typo at the start is the only difference.

    The first letter is seldom wrong: `bcrypt` is not crypto.
    """
    return (
        candidate[0] == name[0]
        or candidate[1:] in (name, name[1:])
        or name[1:] == candidate
        or (candidate[:2] == name[1::-1] and candidate[2:] == name[2:])
    )


def _is_near_module(name: str) -> bool:
    """Return whether a name has one character more than a module of the standard library: `jsonn` is not jsonc."""
    return any(name[:at] + name[at + 1 :] in sys.stdlib_module_names for at in range(len(name)))


def _digits(name: str) -> str:
    """Return the digits of a name. Other digits are another package, not a typing error: `json3`, `json5`."""
    return "".join(filter(str.isdecimal, name))


def _is_extension(candidate: str, name: str) -> bool:
    """Return whether one name is the other with at least two characters appended, which is not a typo."""
    shorter, longer = sorted((candidate, name), key=len)
    return len(longer) - len(shorter) >= 2 and longer.startswith(shorter)


def _names_of(library: Library) -> set[str]:
    """Return all names of a library in lower case."""
    packages = (name for _, name in library.packages.names())
    return {name.lower() for name in (library.id, library.name, *packages, *library.aliases) if name}


def _put(into: dict[str, tuple[Library, ...]], name: str, alone: tuple[Library, ...]) -> None:
    known = into.get(name)
    if known is None:
        into[name] = alone
    elif alone[0] not in known:
        into[name] = (*known, *alone)


def _ranked(libraries: tuple[Library, ...], name: str) -> Sequence[Library]:
    """Sort the library with exactly this id first, and keep the order of the registry otherwise."""
    return libraries if len(libraries) == 1 else sorted(libraries, key=lambda library: library.id != name)


def _match(library: Library, via: MatchedVia, relevance: float) -> Match:
    return Match(library.id, library.name, library.languages, library.docs_url, via, relevance)


__all__ = ["MAX_MATCHES", "MIN_SCORE", "Index", "max_edits"]
